# SPDX-License-Identifier: MIT
"""What the system tells about processes."""
import pathlib
import time

LIMIT = 60  # in seconds; a busy machine


def children_of(process):
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in children.split()]


def maps_of(process):
    """What it has mapped; nothing if it has ended."""
    try:
        return pathlib.Path(f"/proc/{process}/maps").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it may go while it is read
        return ""


def wait_until(holds):
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(f"this is not so after {LIMIT} s")
        time.sleep(0.005)


def is_gone(process):
    """Whether it has ended; a zombie has."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go while it is read
        return True
