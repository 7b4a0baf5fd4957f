// SPDX-License-Identifier: MIT
// A picture as SVG. Internal to the library and to the command.
#pragma once

#include <cuevent/version.hpp>

#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>

namespace cuevent { inline namespace CUEVENT_ABI {

/// A picture for light and dark windows. All lengths are in px, from the upper left corner. `kind` is one or
/// more classes of the style. `markup` is text that may have entities: xml_text() makes it from a name.
///
/// The classes of every picture: `quiet` for text that matters less, and `arrow` for a line with a head.
class SvgPicture {
public:
  static constexpr double font_size = 12;

  void rectangle(std::string_view kind, double x, double y, double width, double height, double radius = 0,
                 std::string_view title_markup = {}) {
    begin("rect", kind);
    attributes({{"x", x}, {"y", y}, {"width", width}, {"height", height}});
    if (radius != 0) attributes({{"rx", radius}});
    if (title_markup.empty())
      body_ += "/>\n";
    else
      body_.append("><title>").append(title_markup).append("</title></rect>\n");
  }

  void text(std::string_view kind, double x, double y, std::string_view markup) {
    begin("text", kind);
    attributes({{"x", x}, {"y", y}});
    body_.append(">").append(markup).append("</text>\n");
  }

  /// A straight line between two points, or a curve from the first to the last of four points.
  void line(std::string_view kind, std::initializer_list<double> points) {
    begin("path", kind);
    const char* separator = " d=\"M";
    std::size_t written = 0;
    for (const double coordinate : points) {
      body_.append(separator).append(number(coordinate));
      separator = ++written == 2 ? points.size() == 4 ? "L" : "C" : " ";
    }
    body_ += "\"/>\n";
  }

  /// The whole picture. The styles add their rules to the common ones; `dark_style` is for dark windows.
  std::string svg(double width, double height, std::string_view title_markup, std::string_view style,
                  std::string_view dark_style) const {
    const std::string across = number(width), down = number(height);
    std::string all = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + across + " " + down +
                      "\" width=\"" + across + "\" height=\"" + down + "\" role=\"img\">\n";
    all.append("<title>").append(title_markup).append("</title>\n<style>\n").append(common_style);
    all.append(style).append("@media (prefers-color-scheme: dark) {\n").append(common_dark_style);
    all.append(dark_style).append("}\n</style>\n").append(head_of_arrows);
    return all + "<rect class=\"paper\" width=\"" + across + "\" height=\"" + down + "\"/>\n" + body_ +
           "</svg>\n";
  }

private:
  struct Attribute {
    const char* name;
    double value;
  };

  void begin(std::string_view element, std::string_view kind) {
    body_.append("<").append(element);
    if (!kind.empty()) body_.append(" class=\"").append(kind).append("\"");
  }
  void attributes(std::initializer_list<Attribute> all) {
    for (const Attribute& each : all)
      body_.append(" ").append(each.name).append("=\"").append(number(each.value)).append("\"");
  }

  /// At most two decimals, and none that are zero.
  static std::string number(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.2f", value);
    std::string short_text = text;
    short_text.erase(short_text.find_last_not_of('0') + 1);
    if (short_text.back() == '.') short_text.pop_back();
    return short_text;
  }

  static constexpr std::string_view common_style = R"(text {
  font: 12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  fill: #1f2328;
}
.quiet { fill: #59636e; }
.paper { fill: #ffffff; }
.arrow { stroke: #59636e; stroke-width: 1.2; fill: none; marker-end: url(#head); }
.head { fill: #59636e; }
)";
  static constexpr std::string_view common_dark_style = R"(text { fill: #e6edf3; }
.quiet { fill: #9aa4af; }
.paper { fill: #0d1117; }
.arrow { stroke: #9aa4af; }
.head { fill: #9aa4af; }
)";
  static constexpr std::string_view head_of_arrows =
      "<defs><marker id=\"head\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
      "markerHeight=\"7\" orient=\"auto\"><path class=\"head\" d=\"M0 0L8 4L0 8z\"/></marker></defs>\n";

  std::string body_;
};

}} // namespace cuevent::CUEVENT_ABI
