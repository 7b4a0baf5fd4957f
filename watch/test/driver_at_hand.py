# SPDX-License-Identifier: MIT
"""The driver for watched programs: the simulated one, or with the last argument `real` a real one."""
import os
import pathlib
import subprocess
import sys

from test_part import PART

IS_REAL = sys.argv[-1] == "real"
HAS_NAMES = os.environ.get("CUEVENT_TEST_LIBDW", "1") == "1"  # stacks name functions, thanks to libdw
FIND = """
import ctypes, pathlib
driver, count = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
assert driver.cuInit(0) == 0 and driver.cuDeviceGetCount(ctypes.byref(count)) == 0
print(count.value)
lines = pathlib.Path("/proc/self/maps").read_text().splitlines()
print(next(line.split()[-1] for line in lines if "/libcuda.so" in line))
"""


def real_driver():
    """Its path, and the number of devices. Ends this process with 77, for a skipped test, without any."""
    build = pathlib.Path(sys.argv[1]).resolve().parents[1]  # where the simulated one is
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    others = [folder for folder in folders if build not in (pathlib.Path(folder).resolve() / "_").parents]
    found = subprocess.run([sys.executable, "-c", FIND], capture_output=True, text=True, check=False,
                           env=dict(os.environ, LD_LIBRARY_PATH=":".join(others)))
    if found.returncode != 0:
        sys.exit(77)
    count, path = found.stdout.split()
    return str(pathlib.Path(path).parent / "libcuda.so.1"), int(count)


LIBCUDA, DEVICES = real_driver() if IS_REAL else (str(pathlib.Path(sys.argv[-1]).resolve()), 2)
# A real driver does not start in a second namespace, nor after its library was unloaded, nor in a child whose
# parent was inside of it.
SIMULATED_WAYS = ("dlmopen", "dlclose", "fork")
# The programs are linked with the simulated driver. The loader finds the real one first.
ENVIRONMENT = dict(os.environ, LD_LIBRARY_PATH=os.path.dirname(LIBCUDA)) if IS_REAL else dict(os.environ)
# Every other part of a test takes another device first.
if IS_REAL and DEVICES > 1 and PART % 2 == 0:
    ENVIRONMENT.setdefault("CUDA_VISIBLE_DEVICES", "1,0")
