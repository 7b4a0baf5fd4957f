# SPDX-License-Identifier: MIT
"""Programs of PyTorch, CuPy and JAX for `cuevent watch --order`, on a device: order_frameworks.py NAME|--list
Those that begin with `mistake_` have one. Run them with PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync; the
finding names the two lines that end with `#!`. All others are right."""
import sys

STEPS = 200


def mistake_record_stream_forgotten():
    import torch
    side = torch.cuda.Stream()
    for _ in range(50):
        tensor = torch.ones(1 << 20, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = tensor * 2  #!
        del tensor  #!
        torch.cuda.current_stream().wait_stream(side)
        del total
    torch.cuda.synchronize()


def mistake_offloaded_block_freed():
    import torch
    side, host = torch.cuda.Stream(), torch.empty(1 << 20, pin_memory=True)
    for _ in range(50):
        activation = torch.ones(1 << 20, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host.copy_(activation, non_blocking=True)  #!
        del activation  #!
        side.synchronize()


def mistake_block_copied_out_before_it_is_written():
    import torch
    side, host = torch.cuda.Stream(), torch.empty(1 << 20, pin_memory=True)
    cache, block = torch.zeros(1 << 20, device="cuda"), torch.ones(1 << 20, device="cuda")
    torch.cuda.synchronize()
    for _ in range(50):
        cache.copy_(block)  #!
        with torch.cuda.stream(side):
            host.copy_(cache, non_blocking=True)  #!
        torch.cuda.synchronize()


def record_stream():
    import torch
    side = torch.cuda.Stream()
    for _ in range(STEPS):
        tensor = torch.ones(1 << 20, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            total = tensor * 2
        tensor.record_stream(side)
        del tensor
        torch.cuda.current_stream().wait_stream(side)
        del total
    torch.cuda.synchronize()


def train(**options):
    import torch
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), **options)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(64, 256, device="cuda")).square().mean().backward()
        optimizer.step()
    torch.cuda.synchronize()


def fused_optimiser():
    train(fused=True)


def foreach_optimiser():
    train(foreach=True)


def loader():
    import torch
    data = torch.utils.data.TensorDataset(torch.randn(STEPS * 8, 3, 64, 64))
    batches = torch.utils.data.DataLoader(data, batch_size=8, num_workers=2, pin_memory=True)
    model = torch.nn.Conv2d(3, 8, 3).cuda()
    for (batch,) in batches:
        model(batch.cuda(non_blocking=True)).sum()
    torch.cuda.synchronize()


def compiled():
    import torch
    model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU()).cuda()
    fast = torch.compile(model, mode="reduce-overhead")
    for _ in range(STEPS):
        fast(torch.randn(32, 128, device="cuda")).sum().backward()
    torch.cuda.synchronize()


def offload():
    import torch
    side = torch.cuda.Stream()
    for _ in range(STEPS):
        tensor = torch.randn(1 << 18, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            host = tensor.to("cpu", non_blocking=True)
        tensor.record_stream(side)
        side.synchronize()
        del tensor, host


def parallel(wrap):
    """Two processes, each with its GPU."""
    import torch
    torch.multiprocessing.spawn(one_rank, args=(wrap,), nprocs=2)


def one_rank(rank, wrap):
    import os

    import torch
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29513")
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("nccl", rank=rank, world_size=2)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)]).cuda()
    if wrap == "ddp":
        model = torch.nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    else:
        from torch.distributed.fsdp import FullyShardedDataParallel
        model = FullyShardedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        optimizer.zero_grad()
        model(torch.randn(32, 512, device="cuda")).sum().backward()
        optimizer.step()
    torch.cuda.synchronize()
    torch.distributed.destroy_process_group()


def ddp():
    parallel("ddp")


def fsdp():
    parallel("fsdp")


def cupy_streams():
    import cupy
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    for i in range(STEPS):
        with streams[i % 2]:
            cupy.ones(1 << 16).sum()
    for stream in streams:
        stream.synchronize()


def jax_steps():
    import jax
    def loss(weights, batch):
        return ((batch @ weights) ** 2).sum()
    step = jax.jit(lambda weights, batch: weights - 0.01 * jax.grad(loss)(weights, batch))
    weights = jax.numpy.ones((128, 128))
    for i in range(STEPS):
        weights = step(weights, jax.random.normal(jax.random.PRNGKey(i), (32, 128)))
    weights.block_until_ready()


PROGRAMS = {name: program for name, program in dict(globals()).items()
            if callable(program) and program.__code__.co_argcount == 0 and not program.__code__.co_flags & 8
            and name != "main"}

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(*PROGRAMS, sep="\n")
    else:
        PROGRAMS[sys.argv[1]]()
