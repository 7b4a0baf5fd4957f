# SPDX-License-Identifier: MIT
"""A plugin of pytest, which finds it in the installed wheel. On simulated devices that refuse what is not
modelled, as `cuevent sim --unmodelled error` makes them, a test that makes such a call fails with the names.
Elsewhere the plugin does nothing. `pytest -p no:cuevent` leaves it out."""
from __future__ import annotations

import gc
import os
import sys
from types import ModuleType
from typing import Any, Dict, Iterator

import pytest

from cuevent import sim


def take_unmodelled() -> Dict[str, str]:
    """What this process has called since the last time. It loads no driver for this."""
    try:
        sim._load(may_load=False)
    except sim.NotSimulated:  # a driver of a device, or none
        return {}
    return sim.take_unmodelled()


def text_of(calls: Dict[str, str]) -> str:
    return "; ".join(name + (f", called from {caller}" if caller else "") for name, caller in calls.items())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cuevent_sim(**options): the options of the fixture cuevent_sim, as "
                                       "cuevent.sim.reset takes them")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    report = (yield).get_result()  # type: ignore[attr-defined]
    calls = take_unmodelled()
    if not calls:
        return
    said = "cuevent sim: not modelled, and called by this test: " + text_of(calls)
    if report.outcome == "passed":
        report.outcome, report.longrepr = "failed", said
    else:
        report.sections.append(("cuevent sim", said))


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: Any) -> Iterator[None]:
    """No test has made the calls of a module that is imported, so none fails for them."""
    report = (yield).get_result()  # type: ignore[attr-defined]
    calls = take_unmodelled()
    if not calls:
        return
    said = "cuevent sim: not modelled, and called while this was collected: " + text_of(calls)
    try:
        collector.warn(pytest.PytestWarning(said))
    except pytest.PytestWarning:  # the user wants errors
        report.outcome, report.longrepr = "failed", said


def start_session(**options: Any) -> None:
    """First ends the objects that nobody uses any more: their destructors would call the driver later, with
    handles of this session. pytest keeps what a failed test had."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        sys.__dict__.pop(name, None)
    gc.collect()
    sim.reset(**options)


@pytest.fixture
def cuevent_sim(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """Fresh simulated devices for this test; its value is the module cuevent.sim.

    The test begins like a new process that has called cuInit: without contexts, streams, memory and faults,
    at time zero. `@pytest.mark.cuevent_sim(mode="stepped", devices=2)` chooses options of
    cuevent.sim.reset(). All other options are those of `cuevent sim`. If `cuevent sim` was not told what to
    do with calls that are not modelled, they return an error, and the test fails with their names.

    Handles from before the test are invalid in it, and handles of the test are invalid after it. A call with
    such a handle is not modelled. So the fixture is for tests that make their own contexts. Libraries that
    keep a primary context or handles for as long as the process runs cannot use it, for example PyTorch,
    CuPy, numba.cuda and cuda.core: run each of their tests in its own process instead. Before it resets the
    devices, the fixture collects garbage, so that destructors of the test's objects run in its session."""
    marker = request.node.get_closest_marker("cuevent_sim")
    if marker and marker.args:
        raise TypeError("the mark cuevent_sim takes named options only, such as devices=2")
    options = dict(marker.kwargs) if marker else {}
    if not os.environ.get("CUEVENT_SIM_UNMODELLED"):
        options.setdefault("unmodelled", "error")
    start_session(**options)
    yield sim
    start_session()
