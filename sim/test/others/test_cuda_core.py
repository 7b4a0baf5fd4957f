# SPDX-License-Identifier: MIT
"""What a program expects of events, streams, buffers and graphs of cuda.core. Its wheel has no tests."""
import ctypes
import time

import pytest
from cuda.core import (Device, EventOptions, LaunchConfig, LegacyPinnedMemoryResource, Program,
                       ProgramOptions, Stream, StreamOptions, launch)
from cuda.core.graph import GraphBuilder, GraphDefinition

SIZE = 4096


@pytest.fixture
def device():
    device = Device()
    device.set_current()
    return device


@pytest.fixture
def stream(device):
    return device.create_stream()


@pytest.fixture
def pinned(device):
    buffer = LegacyPinnedMemoryResource().allocate(SIZE)
    yield buffer
    buffer.close()


def content(buffer):
    return (ctypes.c_ubyte * buffer.size).from_address(int(buffer.handle))


def test_a_device_names_itself(device):
    assert device.name and device.compute_capability >= (7, 5)
    assert device.properties.multiprocessor_count > 0


def test_a_device_waits_for_its_streams(device, stream):
    event = stream.record()
    device.sync()
    assert event.is_done


def test_an_event_is_done_when_its_stream_is(device, stream):
    event = stream.record()
    event.sync()
    assert event.is_done and not event.is_timing_enabled


def test_time_passes_between_two_events(device, stream):
    timed = EventOptions(timing_enabled=True)
    start = stream.record(options=timed)
    time.sleep(0.01)
    end = stream.record(options=timed)
    end.sync()
    assert end - start >= 10


def test_the_time_of_events_without_timing_is_an_error(device, stream):
    start, end = stream.record(), stream.record()
    end.sync()
    with pytest.raises(RuntimeError):
        end - start


def test_a_stream_waits_for_an_event_and_for_a_stream(device, stream):
    other = device.create_stream(options=StreamOptions(nonblocking=True, priority=-1))
    other.wait(stream.record())
    other.wait(stream)
    other.sync()
    assert other.is_nonblocking and other.priority == -1 and other.handle != stream.handle


def test_the_context_of_a_stream_is_the_devices(device, stream):
    assert stream.context == device.context and stream.device.device_id == device.device_id


def test_a_foreign_stream_is_borrowed(device, stream):
    borrowed = Stream.from_handle(int(stream.handle))
    borrowed.record().sync()
    del borrowed
    stream.sync()


def test_a_buffer_keeps_its_bytes(device, stream, pinned):
    memory = device.allocate(SIZE, stream=stream)
    back = LegacyPinnedMemoryResource().allocate(SIZE)
    content(pinned)[:] = bytes(i % 251 for i in range(SIZE))
    pinned.copy_to(memory, stream=stream)
    back.copy_from(memory, stream=stream)
    stream.sync()
    assert bytes(content(back)) == bytes(content(pinned))
    assert memory.is_device_accessible and not memory.is_host_accessible
    memory.close(stream)
    back.close()


@pytest.mark.parametrize("value", [7, b"\1\2", b"\1\2\3\4"])
def test_a_buffer_is_filled(device, stream, pinned, value):
    memory = device.allocate(SIZE, stream=stream)
    memory.fill(value, stream=stream)
    memory.copy_to(pinned, stream=stream)
    stream.sync()
    pattern = bytes([value]) if isinstance(value, int) else value
    assert bytes(content(pinned)) == pattern * (SIZE // len(pattern))
    memory.close(stream)


@pytest.fixture
def kernel(device):
    code = 'extern "C" __global__ void step(int* to) { ++*to; }'
    options = ProgramOptions(arch=f"sm_{device.arch}")
    return Program(code, "c++", options).compile("ptx").get_kernel("step")


def test_a_kernel_is_compiled_and_launched(device, stream, kernel):
    memory = device.allocate(4, stream=stream)
    launch(stream, LaunchConfig(grid=1, block=1), kernel, memory)
    stream.sync()
    memory.close(stream)


def test_a_captured_graph_copies_at_each_launch(device, stream, pinned):
    memory = device.allocate(SIZE, stream=stream)
    memory.fill(1, stream=stream)
    stream.sync()
    builder = device.create_graph_builder().begin_building()
    memory.copy_to(pinned, stream=builder.stream)
    graph = builder.end_building().complete()
    graph.upload(stream)
    for value in (1, 2):
        memory.fill(value, stream=stream)
        graph.launch(stream)
        stream.sync()
        assert set(content(pinned)) == {value}
    memory.close(stream)


def test_a_captured_graph_forks_and_joins(device, stream, kernel):
    builder = device.create_graph_builder().begin_building()
    memory = device.allocate(4, stream=stream)
    launch(builder, LaunchConfig(grid=1, block=1), kernel, memory)
    left, right = builder.split(2)
    for branch in (left, right):
        launch(branch, LaunchConfig(grid=1, block=1), kernel, memory)
    graph = GraphBuilder.join(left, right).end_building().complete()
    graph.launch(stream)
    stream.sync()
    memory.close(stream)


def test_a_graph_of_nodes_records_an_event(device, stream, pinned):
    event = device.create_event()
    graph = GraphDefinition()
    graph.memset(int(pinned.handle), 9, SIZE).record(event)
    graph.instantiate().launch(stream)
    stream.sync()
    assert event.is_done and set(content(pinned)) == {9}
