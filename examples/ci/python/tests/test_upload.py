# SPDX-License-Identifier: MIT
import ctypes
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from upload import Upload, check, cuda


@pytest.fixture
def stream(cuevent_sim):  # after it, so that the devices are fresh
    context, made = ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
    check(cuda.cuStreamCreate(ctypes.byref(made), 1))
    return made.value


@pytest.mark.cuevent_sim(mode="stepped")
def test_a_slow_device_makes_nobody_wait(cuevent_sim, stream):
    cuevent_sim.hold(stream)
    upload = Upload(b"some data", stream)
    cuevent_sim.advance(3600)
    assert not upload.done()
    cuevent_sim.release(stream)
    cuevent_sim.run_until_idle()
    assert upload.done()


def test_nothing_is_left(cuevent_sim, stream):
    upload = Upload(b"some data", stream)
    check(cuda.cuStreamSynchronize(ctypes.c_void_p(stream)))
    upload.close()
    assert cuevent_sim.live_handles().allocations == 0


def test_a_full_device_is_a_memory_error(cuevent_sim, stream):
    cuevent_sim.fail_next("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(MemoryError):
        Upload(b"some data", stream)
