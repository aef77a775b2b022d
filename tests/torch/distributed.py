"""A process of a group that trains one model: run by test_distributed.py, which compares the losses.

``python distributed.py KIND RANK WORLD FOLDER`` prints the loss of each step over the whole batch.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

STEPS, BATCH = 4, 8


class Block(nn.Module):
    """TorchDynamo starts at functions of the user's, not at those of ``torch.nn``."""

    def __init__(self, width, inner):
        super().__init__()
        self.widen, self.norm, self.narrow = nn.Linear(width, inner), nn.LayerNorm(inner), nn.Linear(inner, width)

    def forward(self, x):
        return x + self.narrow(self.norm(nn.functional.gelu(self.widen(x))))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(6, 16), Block(6, 16)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def network():
    torch.manual_seed(0)
    return Network()


def batch():
    torch.manual_seed(1)
    return torch.randn(BATCH, 6), torch.randn(BATCH, 6)


def distributed(kind, model):
    """The model of this process, compiled: as a whole, or block by block, which is how sharded models are."""
    if kind == "ddp":
        return torch.compile(nn.parallel.DistributedDataParallel(model), backend="zenith")
    from torch.distributed.fsdp import fully_shard

    for block in model.blocks:
        block.compile(backend="zenith")
        fully_shard(block)
    return fully_shard(model)


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
