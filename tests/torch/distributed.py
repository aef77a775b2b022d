"""A process of a group that trains one model: run by tests/torch/test_distributed.py, which compares the losses.

``python distributed.py KIND RANK WORLD FOLDER`` prints the loss of each step over the whole batch.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH = 4, 8


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))


def batch():
    torch.manual_seed(1)
    return torch.randn(BATCH, 6), torch.randn(BATCH, 3)


def distributed(kind, model):
    """The model of this process, compiled."""
    if kind == "ddp":
        return torch.compile(nn.parallel.DistributedDataParallel(model), backend="zenith")
    from torch.distributed.fsdp import fully_shard

    for layer in model:
        if any(True for _ in layer.parameters()):
            fully_shard(layer)
    fully_shard(model)
    return torch.compile(model, backend="zenith")


def losses(model, call, rank, world):
    """Train; the mean over all processes of each step's loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    inputs, wanted = (t.chunk(world)[rank] for t in batch())
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(call(inputs), wanted)
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if world > 1:
            dist.all_reduce(total)
        found.append(total.item() / world)
    return found


def main(kind, rank, world, folder):
    store = dist.FileStore(str(Path(folder, "store")), world)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world)
    model = network()
    call = distributed(kind, model)
    found = losses(model, call, rank, world)
    import zenith

    assert zenith.torch.graphs(), "nothing was compiled"
    print(*found)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
