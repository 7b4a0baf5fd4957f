# SPDX-License-Identifier: MIT
# A value that the host reads during a capture breaks the capture.
import sys

import torch

breaks = sys.argv[1:] != ["fixed"]
model = torch.nn.Linear(1024, 1024, device="cuda")
batch = torch.zeros(64, 1024, device="cuda")

side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):  # the first use allocates, which a capture must not do
    model(batch).sum().backward()
torch.cuda.current_stream().wait_stream(side)

graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    loss = model(batch).sum()
    if breaks:
        print(loss.item())
    loss.backward()
graph.replay()
torch.cuda.synchronize()
