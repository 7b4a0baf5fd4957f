# SPDX-License-Identifier: MIT
"""Tests with PyTorch run in the Python that CUEVENT_TEST_PYTHON names, or in the one that has started them.
Without PyTorch, they are skipped."""
import os
import sys


def use():
    """Returns in this Python."""
    named = os.environ.pop("CUEVENT_TEST_PYTHON", "")
    if named:
        os.execv(named, [named, *sys.argv])
    try:
        import torch  # noqa: F401
    except ImportError:
        sys.exit(77)
