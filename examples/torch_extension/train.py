# SPDX-License-Identifier: MIT
"""A training loop with timed modules and a watchdog, and a CUDA graph with timed stages."""
import sys

import torch  # before cuevent_torch, which needs its libraries

import cuevent_torch
from module_times import ModuleTimes


def train(model, data, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    times = ModuleTimes(model, device=0)
    watchdog = cuevent_torch.Watchdog(device=0, limit=10.0)
    for _ in range(steps):
        model(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        watchdog.beat(torch.cuda.current_stream())
        times.timer.poll()
    times.timer.collect()
    print(times.table())
    times.remove()
    assert watchdog.error is None and not watchdog.stuck
    report = times.timer.report()
    assert report["0"]["count"] == steps and report["0"]["mean_us"] > 0
    assert report["Sequential"]["mean_us"] >= report["0"]["mean_us"]


def replay(model, data, launches):
    timer = cuevent_torch.StageTimer(device=0)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.no_grad(), torch.cuda.graph(graph):
        stream = torch.cuda.current_stream()
        timer.open(stream, "first layer")
        middle = model[0](data)
        timer.close(stream)
        timer.open(stream, "other layers")
        result = model[1:](middle)
        timer.close(stream)
    timed = timer.instantiate(graph)
    stream = torch.cuda.current_stream()
    for _ in range(launches):
        timed.replay(stream)
    timer.collect()
    for name, stage in timer.report().items():
        print(f"{name}: {stage['count']} launches, {stage['mean_us']:.1f} us")
        assert stage["count"] == launches and stage["mean_us"] > 0
    with torch.no_grad():
        torch.testing.assert_close(result, model(data))


def main():
    if not torch.cuda.is_available():
        print("there is no GPU")
        sys.exit(77)
    layers = [torch.nn.Linear(2048, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 2048)]
    model = torch.nn.Sequential(*layers).cuda()
    data = torch.randn(512, 2048, device="cuda")
    train(model, data, steps=20)
    replay(model, data, launches=10)


if __name__ == "__main__":
    main()
