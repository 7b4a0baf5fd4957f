#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch and CuPy programs with a missing wait, and the same with the wait: jitter_torch.py [corrected]
[TIMES] NAME. Prints what the device has computed, each time."""
import hashlib
import os
import sys
import time

RIGHT = "corrected" in sys.argv
TIMES = int(sys.argv[-2]) if sys.argv[-2].isdigit() else 1


def other_work():
    time.sleep(0.0005)


def torch_programs():
    import torch
    main = torch.cuda.current_stream()
    side = torch.cuda.Stream()

    def side_stream():
        x = torch.arange(4096, device="cuda", dtype=torch.float32)
        y, total = torch.zeros_like(x), 0.0
        for turn in range(1, 11):  # the first turn loads code, which ends all holds
            side.wait_stream(main)
            with torch.cuda.stream(side):
                torch.mul(x, turn, out=y)
            if RIGHT:
                main.wait_stream(side)
            other_work()
            total += y.sum().item()
        return total

    def offload():
        x = torch.full((4096,), 3.0, device="cuda")
        host = torch.zeros(4096, pin_memory=True)
        torch.cuda.synchronize()
        host.copy_(x, non_blocking=True)
        if RIGHT:
            main.synchronize()
        other_work()
        return host.sum()

    def upload():
        host = torch.full((4096,), 3.0, pin_memory=True)
        x = torch.zeros(4096, device="cuda")
        torch.cuda.synchronize()
        x.copy_(host, non_blocking=True)
        if RIGHT:
            main.synchronize()
        other_work()
        host.fill_(5)
        return x.sum()

    def prefetch():
        total, batches = 0.0, [torch.full((4096,), float(i), pin_memory=True) for i in range(20)]
        buffer = torch.zeros(4096, device="cuda")
        for batch in batches:
            side.wait_stream(main)
            with torch.cuda.stream(side):
                buffer.copy_(batch, non_blocking=True)
            if RIGHT:
                main.wait_stream(side)
            other_work()
            total += buffer.sum().item()
        return total

    def graph():
        x = torch.ones(4096, device="cuda")
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            y = x * 2
        side.wait_stream(main)
        with torch.cuda.stream(side):
            x.fill_(4)
        if RIGHT:
            main.wait_stream(side)
        other_work()
        captured.replay()
        return y.sum()

    def training():
        from torch.utils.data import DataLoader, TensorDataset
        torch.manual_seed(1)
        torch.use_deterministic_algorithms(True)
        data = TensorDataset(torch.randn(512, 32), torch.randn(512, 1))
        model = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
        if "LOCAL_RANK" in os.environ:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            torch.distributed.init_process_group("nccl")
            model = torch.nn.parallel.DistributedDataParallel(model.cuda())
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
        for _ in range(3):
            for inputs, targets in DataLoader(data, 64, num_workers=2, pin_memory=True):
                difference = model(inputs.cuda(non_blocking=True)) - targets.cuda(non_blocking=True)
                loss = difference.square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return sum(parameter.double().sum() for parameter in model.parameters())

    return locals()


def cupy_streams():
    import cupy
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x, total = cupy.zeros(4096), 0.0
    cupy.cuda.Device().synchronize()
    for _ in range(10):  # the first turn compiles and loads code, which ends all holds
        first.wait_event(second.record())
        with first:
            x += 3
        if RIGHT:
            second.wait_event(first.record())
        other_work()
        with second:
            total += float(x.sum())
    return total


if __name__ == "__main__":
    NAME = sys.argv[-1]
    program = cupy_streams if NAME == "cupy_streams" else torch_programs()[NAME]
    for _ in range(TIMES):
        result = float(program())
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(NAME, hashlib.md5(repr(result).encode()).hexdigest(), result)
