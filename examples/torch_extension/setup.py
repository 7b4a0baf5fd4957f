# SPDX-License-Identifier: MIT
"""Builds the extension: python3 -m pip install --no-build-isolation . (see docs/from-torch.md)"""
import shlex
import subprocess

from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension


def cuevent(*options):
    """The flags of an installed cuevent. PKG_CONFIG_PATH says where it is."""
    return shlex.split(subprocess.check_output(["pkg-config", *options, "cuevent"], text=True))


setup(
    name="cuevent_torch",
    version="0.1.0",
    py_modules=["module_times"],
    ext_modules=[CUDAExtension(
        "cuevent_torch",
        ["bindings.cpp", "watchdog.cpp", "current_stream.cpp"],
        extra_compile_args=cuevent("--cflags"),
        # The static library goes into the extension, which then needs no other file of cuevent. Its
        # names stay hidden from other extensions.
        extra_link_args=[*cuevent("--libs", "--static"), "-Wl,--exclude-libs,libcuevent.a"],
    )],
    cmdclass={"build_ext": BuildExtension},
)
