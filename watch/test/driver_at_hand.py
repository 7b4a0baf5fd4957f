# SPDX-License-Identifier: MIT
"""The driver for watched programs: the simulated one, or with the last argument `real` a real one."""
import os
import pathlib
import subprocess
import sys

IS_REAL = sys.argv[-1] == "real"
HAS_NAMES = os.environ.get("CUEVENT_TEST_LIBDW", "1") == "1"  # stacks name functions, thanks to libdw
FIND = """
import ctypes, pathlib
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
print(next(line.split()[-1] for line in lines if "/libcuda.so" in line))
"""


def path_of_real_driver():
    """Ends this process with 77, for a skipped test, if there is no device."""
    build = pathlib.Path(sys.argv[1]).resolve().parents[1]  # where the simulated one is
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    others = [folder for folder in folders if build not in (pathlib.Path(folder).resolve() / "_").parents]
    found = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=False,
                           env=dict(os.environ, LD_LIBRARY_PATH=":".join(others)))
    if found.returncode != 0:
        sys.exit(77)
    return str(pathlib.Path(found.stdout.strip()).parent / "libcuda.so.1")


LIBCUDA = path_of_real_driver() if IS_REAL else str(pathlib.Path(sys.argv[-1]).resolve())
# The programs are linked with the simulated driver. The loader finds the real one first.
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(LIBCUDA)) if IS_REAL else dict(os.environ)
