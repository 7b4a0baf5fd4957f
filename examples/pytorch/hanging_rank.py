# SPDX-License-Identifier: MIT
# Rank 1 has no data left and skips the last step, so the sum of the gradients never ends.
import os
import sys

import torch
import torch.distributed

rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
torch.distributed.init_process_group("nccl", device_id=torch.device("cuda", rank))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64, device="cuda"))
batches = 3 if rank == 1 and sys.argv[1:] != ["fixed"] else 4

for _ in range(batches):
    model(torch.zeros(8, 64, device="cuda")).sum().backward()
torch.cuda.synchronize()
print(f"rank {rank} is done", flush=True)
torch.distributed.barrier()
torch.distributed.destroy_process_group()
