# SPDX-License-Identifier: MIT
"""The files of cuevent: the command, the auditing library, the C++ library and the simulated driver."""
from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .timing import Comparison, Measurement, compare, measure

__all__ = ["Comparison", "Measurement", "compare", "measure", "prefix"]


def __getattr__(name: str) -> Any:
    """The timing functions are loaded when they are used, because the command starts here too."""
    if name in __all__:
        return getattr(importlib.import_module("cuevent.timing"), name)
    raise AttributeError(f"module 'cuevent' has no attribute {name!r}")


def prefix() -> str:
    """The folder of the installation, for CMAKE_PREFIX_PATH."""
    return os.path.dirname(os.path.realpath(__file__))
