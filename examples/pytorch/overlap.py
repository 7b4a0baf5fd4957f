# SPDX-License-Identifier: MIT
# Two halves of a batch on two streams. With the wait in the wrong place, they run one after another.
import sys

import torch

one, other = torch.cuda.Stream(), torch.cuda.Stream()
halves = [torch.zeros(1024, 1024, device="cuda") for _ in range(2)]
weights = torch.zeros(1024, 1024, device="cuda")
begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
torch.mm(halves[0], weights)  # loads the code
torch.cuda.synchronize()

begin.record()
one.wait_event(begin)
other.wait_event(begin)
for layer in range(8):
    for stream, half in zip((one, other), halves):
        with torch.cuda.stream(stream):
            torch.mm(half, weights)
        if sys.argv[1:] == ["serial"]:
            one.wait_stream(other)
            other.wait_stream(one)
for stream in (one, other):
    torch.cuda.current_stream().wait_stream(stream)
end.record()
torch.cuda.synchronize()
print(f"{begin.elapsed_time(end):.1f} ms")
