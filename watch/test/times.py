# SPDX-License-Identifier: MIT
"""Times that a busy machine may make long."""


def least(take, limit):
    """The least of up to three times, in seconds: the first that is below the limit, if one is."""
    times = []
    while len(times) < 3 and (not times or times[-1] >= limit):
        times.append(take())
    return min(times)
