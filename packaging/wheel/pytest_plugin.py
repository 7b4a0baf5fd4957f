# SPDX-License-Identifier: MIT
"""A plugin of pytest, which finds it in the installed wheel. On simulated devices that refuse what is not
modelled, as `cuevent sim --unmodelled error` makes them, a test that makes such a call fails with the names.
Elsewhere the plugin does nothing. `pytest -p no:cuevent` leaves it out."""
import ctypes
import os

import pytest


def take_unmodelled():
    """What this process has called since the last time. It loads no driver for this."""
    try:
        driver = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
        take = driver.cueventTakeUnmodelled
    except (AttributeError, OSError):  # a driver of a device, or none
        return []
    take.restype, take.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
    text = ctypes.create_string_buffer(1 << 16)
    take(text, len(text))
    return text.value.decode(errors="replace").splitlines()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    report = (yield).get_result()
    names = take_unmodelled()
    if not names:
        return
    said = "cuevent sim: not modelled, and called by this test: " + "; ".join(names)
    if report.outcome == "passed":
        report.outcome, report.longrepr = "failed", said
    else:
        report.sections.append(("cuevent sim", said))
