"""Hugging Face's architectures under ``torch.compile(backend="zenith")``: how one is called, and how one is trained.

Training follows random numbers of the shapes of all results. Zenith drops the same elements as PyTorch: both draw from
PyTorch's generator, so that curves with dropout can be compared, too.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils import _pytree as pytree

from tests.torch.families import noise
from tests.torch.test_models import tensors
from tests.transforms.envelope import RUNS, nudged, require_inside

STEPS = 20
RULES = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 1e-3),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 1e-2, momentum=0.9),
}


@dataclass
class Run:
    """The ``curve`` of a training (loss, norm of the gradient, distance from the start), and who had gradients."""

    curve: np.ndarray
    trained: set[str]


def compiled(module, fallback="error"):
    """The module under torch.compile; PyTorch may compute nothing of it unless that is asked for."""
    torch.compiler.reset()
    return torch.compile(module, backend="zenith", options={"fallback": fallback})


def train(module, call, calls, rule):
    """Twenty steps on two batches in turn, where ``call`` is the module, compiled or not."""
    optimizer, start, curve = RULES[rule](module.parameters()), copy.deepcopy(module.state_dict()), []
    torch.manual_seed(1)
    for step in range(STEPS):
        optimizer.zero_grad()
        results = [t for t in tensors(call(**calls[step % 2])) if t.requires_grad]
        loss = sum((t - noise(*t.shape).to(t.dtype)).square().mean() for t in results)
        loss.backward()
        optimizer.step()
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        moved = [now - start[name] for name, now in module.state_dict().items() if now.is_floating_point()]
        curve.append([loss.item(), *(torch.nn.utils.get_total_norm(ts).item() for ts in (gradients, moved))])
    return Run(np.array(curve), {name for name, p in module.named_parameters() if p.grad is not None})


def plain(module, calls, rule, dtype, perturbed=None):
    """The same without a compiler; ``perturbed`` moves every weight by one unit in its last place, up or down."""
    module = copy.deepcopy(module)
    if perturbed is not None:
        with torch.no_grad():
            for number, parameter in enumerate(module.parameters()):
                parameter.copy_(torch.tensor(nudged(parameter.numpy(), (perturbed, number))))
    module.to(dtype)
    calls = pytree.tree_map(lambda a: a.to(dtype) if torch.is_tensor(a) and a.is_floating_point() else a, calls)
    return train(module, module, calls, rule)


def require_trains(module, calls, rule, fallback="error"):
    """That the compiled module's curve stays inside the envelope of PyTorch's, and goes down."""
    exact = plain(module, calls, rule, torch.float64)
    runs = [plain(module, calls, rule, torch.float32, number) for number in range(RUNS)]
    found = train(module, compiled(module, fallback), calls, rule)
    assert found.trained == exact.trained, found.trained ^ exact.trained
    require_inside(found.curve, exact.curve, [run.curve for run in runs])
    assert found.curve[-2:, 0].mean() < found.curve[:2, 0].mean(), found.curve[:, 0]
