# SPDX-License-Identifier: MIT
# A loader copies batches on its own stream. Without the wait, a step may begin before its batch has arrived.
import sys

import torch

waits = sys.argv[1:] == ["fixed"]
model = torch.nn.Linear(1024, 1024, device="cuda")
batch, arriving = (torch.zeros(64, 1024, device="cuda") for _ in range(2))
host = torch.randn(64, 1024).pin_memory()
loader, steps = torch.cuda.Stream(), torch.cuda.current_stream()
torch.cuda.synchronize()

for _ in range(10):
    with torch.cuda.stream(loader):
        arriving.copy_(host, non_blocking=True)
    if waits:
        steps.wait_stream(loader)
    batch.copy_(arriving)
    model(batch).sum().backward()
    loader.wait_stream(steps)  # before it overwrites what this step reads
torch.cuda.synchronize()
