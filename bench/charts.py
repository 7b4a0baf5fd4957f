# SPDX-License-Identifier: MIT
"""Pictures of the measurements: SVG, 1,000 px wide, for light and dark pages."""
import html
import math

from tables import number

STYLE = """  <style>
    text { font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; fill: #1f2328; }
    .title { font-size: 16px; font-weight: 600; }
    .quiet { fill: #59636e; }
    .halo { paint-order: stroke; stroke: #f3f5f7; stroke-width: 4px; stroke-linejoin: round; }
    .number { text-anchor: end; font-variant-numeric: tabular-nums; }
    .tick { text-anchor: middle; fill: #59636e; }
    .paper { fill: #ffffff; }
    .lane { fill: #f3f5f7; }
    .grid { stroke: #dde1e6; }
    .raw { fill: #808a94; } .cuevent { fill: #2f7fe0; } .signal { fill: #8a63d2; }
    path.line { fill: none; stroke-width: 2; }
    .line.raw { stroke: #8c959f; stroke-width: 6; opacity: 0.6; }
    .line.cuevent { stroke: #2f7fe0; } .line.signal { stroke: #8a63d2; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; }
      .quiet, .tick { fill: #9aa4af; }
      .paper { fill: #0d1117; }
      .lane { fill: #161b22; }
      .grid { stroke: #2b323b; }
      .halo { stroke: #161b22; }
    }
  </style>
"""
WIDTH, MARGIN = 1000, 20


class Picture:
    """A picture and its frame."""

    def __init__(self, title, subtitle):
        self.title = title
        self.body = [self.text(MARGIN, 34, title, "title"), self.text(MARGIN, 54, subtitle, "quiet")]

    @staticmethod
    def text(x, y, words, kind=""):
        kind = f' class="{kind}"' if kind else ""
        return f'  <text x="{x:.1f}" y="{y:.1f}"{kind}>{html.escape(words)}</text>'

    @staticmethod
    def rect(x, y, width, height, kind):
        size = f'width="{max(width, 0.8):.1f}" height="{height:.1f}"'
        return f'  <rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}/>'

    @staticmethod
    def path(points, kind):
        return f'  <path class="{kind}" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in points) + '"/>'

    def add(self, *parts):
        self.body += parts

    def legend(self, x, y, names):
        for kind, name in names.items():
            self.add(self.rect(x, y - 10, 12, 12, kind), self.text(x + 18, y, name))
            x += 44 + 7 * len(name)

    def svg(self, height):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
                f'height="{height}" role="img">\n  <title>{html.escape(self.title)}</title>\n{STYLE}'
                f'  <rect class="paper" width="{WIDTH}" height="{height}"/>\n' +
                "\n".join(self.body) + "\n</svg>\n")


AXES = {"events": "events alive", "streams": "streams, each with an event",
        "threads": "threads, each with an event and a stream"}
GROWTH = {
    "create, destroy": {"raw_create": "raw", "create": "cuevent"},
    "record": {"raw_record": "raw", "record": "cuevent"},
    "query": {"raw_query": "raw", "query": "cuevent"},
    "EventPool": {"pool": "cuevent"},
    "TimelineFence": {"reached": "cuevent", "signal": "signal"},
}


def short(count):
    if count >= 1_000_000:
        return f"{count // 1_000_000}M"
    return f"{count // 1_000}k" if count >= 10_000 else f"{count:,}"


def growth_chart(measurements):
    """One row per call, one column per growing number. Both scales are logarithmic."""
    picture = Picture("How the time of a call grows, ns", measurements.title() +
                      "; medians of rounds; both scales are logarithmic")
    left, top, gap, height = 170, 118, 32, 118
    width = (WIDTH - MARGIN - left - gap * (len(AXES) - 1)) / len(AXES)
    picture.legend(left, 82, {"raw": "bare call", "cuevent": "cuevent; of the fence: reached",
                              "signal": "of the fence: signal"})
    for column, (axis, words) in enumerate(AXES.items()):
        picture.add(picture.text(left + column * (width + gap), top - 12, words, "quiet"))
    y = top
    numbers = []  # above all lines
    for call, lines in GROWTH.items():
        curves = {(axis, line): measurements.growth(axis, line) for axis in AXES for line in lines}
        times = [time for points in curves.values() for _, time in points]
        if not times:
            continue
        low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
        high = max(high, low + 1)
        picture.add(picture.text(MARGIN, y + height / 2, call))

        def y_of(time):
            return y + height - height * (math.log10(time) - low) / (high - low)

        for column, axis in enumerate(AXES):
            x = left + column * (width + gap)
            picture.add(picture.rect(x, y, width, height, "lane"))
            for power in range(low, high + 1):
                picture.add(picture.path([(x, y_of(10**power)), (x + width, y_of(10**power))], "grid"))
                if column == 0:
                    picture.add(picture.text(x - 6, y_of(10**power) + 4, f"{10**power:,g}", "number quiet"))
            largest = max((size for line in lines for size, _ in curves[axis, line]), default=2)
            for line, kind in lines.items():
                points = [(x + width * math.log(size) / math.log(max(largest, 2)), y_of(time))
                          for size, time in curves[axis, line]]
                if not points:
                    continue
                picture.add(picture.path(points, "line " + kind))
                last = curves[axis, line][-1][1]
                if len(lines) == 1 or kind != "raw":
                    beside = -8 if points[-1][1] > y + 20 else 18
                    numbers.append(picture.text(x + width - 4, points[-1][1] + beside,
                                                number(last), "number halo"))
            for size, _ in curves[axis, next(iter(lines))]:
                at = x + width * math.log(size) / math.log(max(largest, 2))
                picture.add(picture.text(at, y + height + 14, short(size), "tick"))
        y += height + 34
    picture.add(*numbers)
    return picture.svg(y)
