# SPDX-License-Identifier: MIT
"""The files of cuevent: the command, the auditing library, the C++ library and the simulated driver."""
import os


def prefix() -> str:
    """The folder of the installation, for CMAKE_PREFIX_PATH."""
    return os.path.dirname(os.path.realpath(__file__))
