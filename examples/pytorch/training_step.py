# SPDX-License-Identifier: MIT
# 100 steps with Adam and mixed precision, then 100 replays of a captured step.
import time

begun = time.monotonic()
import torch  # noqa: E402

torch.cuda.Event().record()
print(f"first event: {time.monotonic() - begun:.1f} s")

model = torch.nn.Sequential(torch.nn.Linear(128, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).cuda()
optimizer = torch.optim.Adam(model.parameters(), capturable=True)
scaler = torch.amp.GradScaler("cuda")
images = torch.zeros(32, 128, device="cuda")
labels = torch.zeros(32, dtype=torch.long, device="cuda")


def step(scale=lambda loss: loss):
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
    scale(loss).backward()


begun = time.monotonic()
for _ in range(100):
    step(scaler.scale)
    scaler.step(optimizer)
    scaler.update()
torch.cuda.synchronize()
print(f"100 steps: {time.monotonic() - begun:.1f} s")

begun = time.monotonic()
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        step()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()
    optimizer.step()
batch = torch.zeros(32, 128).pin_memory()
for _ in range(100):
    images.copy_(batch, non_blocking=True)
    graph.replay()
torch.cuda.synchronize()
print(f"100 replays: {time.monotonic() - begun:.1f} s")
