# SPDX-License-Identifier: MIT
"""Hands a buffer from process to process: with PyTorch's interprocess events, and with semaphores."""
import os
import sys
import time
from multiprocessing import reduction

import torch  # before cuevent_torch, which needs its libraries
import torch.multiprocessing as mp

import cuevent_torch

ROUNDS = 200
SIZE = 1 << 20


def fill_with_events(buffer, stream, inbox, outbox):
    filled = torch.cuda.Event(interprocess=True)
    outbox.put(filled.ipc_handle())
    read = torch.cuda.Event.from_ipc_handle(buffer.device, inbox.get(timeout=60))
    for number in range(ROUNDS):
        buffer.fill_(number)
        filled.record(stream)
        outbox.put("recorded")
        assert inbox.get(timeout=60) == "recorded"
        read.wait(stream)
    stream.synchronize()


def read_with_events(buffer, stream, inbox, outbox):
    read = torch.cuda.Event(interprocess=True)
    outbox.put(read.ipc_handle())
    filled = torch.cuda.Event.from_ipc_handle(buffer.device, inbox.get(timeout=60))
    sums = []
    for _ in range(ROUNDS):
        assert inbox.get(timeout=60) == "recorded"
        filled.wait(stream)
        sums.append(buffer.sum())
        read.record(stream)
        outbox.put("recorded")
    stream.synchronize()
    return sums


def fill_with_semaphores(buffer, stream, filled, read):
    for number in range(ROUNDS):
        if number > 0:
            read.wait(stream, number)
        buffer.fill_(number)
        filled.signal(stream, number + 1)
    assert read.synchronize(ROUNDS, seconds=20)


def read_with_semaphores(buffer, stream, filled, read):
    sums = []
    for number in range(ROUNDS):
        filled.wait(stream, number + 1)
        sums.append(buffer.sum())
        read.signal(stream, number + 1)
    assert read.synchronize(ROUNDS, seconds=20)
    return sums


def check(sums):
    assert [int(total) for total in sums] == [number * SIZE for number in range(ROUNDS)]


def reader(pipe, inbox, outbox):
    stream = torch.cuda.Stream(0)
    buffer = inbox.get(timeout=60)
    with torch.cuda.stream(stream):
        outbox.put("ready")
        check(read_with_events(buffer, stream, inbox, outbox))
        filled = cuevent_torch.Semaphore.join(0, reduction.recv_handle(pipe))
        read = cuevent_torch.Semaphore(0)
        send(read, pipe, os.getppid())
        filled.abandon_on_death()  # if the other process dies, no stream waits forever
        check(read_with_semaphores(buffer, stream, filled, read))


def send(semaphore, pipe, process):
    descriptor = semaphore.export_handle()
    reduction.send_handle(pipe, descriptor, process)
    os.close(descriptor)


def main():
    if not torch.cuda.is_available():
        print("there is no GPU")
        sys.exit(77)
    processes = mp.get_context("spawn")
    pipe, other_end = processes.Pipe()
    inbox, outbox = processes.Queue(), processes.Queue()
    child = processes.Process(target=reader, args=(other_end, outbox, inbox))
    child.start()
    stream = torch.cuda.Stream(0)
    buffer = torch.zeros(SIZE, dtype=torch.int64, device="cuda:0")
    outbox.put(buffer)
    with torch.cuda.stream(stream):
        assert inbox.get(timeout=60) == "ready"
        begin = time.perf_counter()
        fill_with_events(buffer, stream, inbox, outbox)
        middle = time.perf_counter()
        filled = cuevent_torch.Semaphore(0)
        send(filled, pipe, child.pid)
        read = cuevent_torch.Semaphore.join(0, reduction.recv_handle(pipe))
        read.abandon_on_death()
        start = time.perf_counter()
        fill_with_semaphores(buffer, stream, filled, read)
        end = time.perf_counter()
    child.join()
    assert child.exitcode == 0
    print(f"{ROUNDS} rounds: {(middle - begin) / ROUNDS * 1e6:.0f} us each with events and messages, "
          f"{(end - start) / ROUNDS * 1e6:.0f} us each with semaphores")


if __name__ == "__main__":
    main()
