# SPDX-License-Identifier: MIT
"""What the system tells about processes."""
import pathlib


def children_of(process):
    children = pathlib.Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in children.split()]


def is_gone(process):
    """Whether it has ended; a zombie has."""
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may go while it is read
        return True
