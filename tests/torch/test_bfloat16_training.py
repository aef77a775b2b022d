"""Training with products in bfloat16: weights, gradients and losses stay float32; autocast is followed."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import zenith
from tests.torch.labelled_images import labelled_images

torch = pytest.importorskip("torch")
nn = torch.nn


def network() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
    )  # fmt: skip


def losses(call: Any, module: Any, steps: int) -> list[float]:
    optimizer, found = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9), []
    for images, labels in labelled_images(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(call(images).float(), labels)
        loss.backward()
        optimizer.step()
        found.append(float(loss.detach()))
    return found


def test_a_module_learns_like_in_float32() -> None:
    plain, short = network(), network()
    wanted = losses(plain, plain, 60)
    found = losses(zenith.from_torch(short, (torch.zeros(32, 3, 12, 12),), precision="bf16"), short, 60)
    assert found != wanted and found[-1] < 0.6 * found[0]
    assert max(abs(a - b) for a, b in zip(found, wanted, strict=True)) < 0.05
    assert {p.dtype for p in short.parameters()} == {p.grad.dtype for p in short.parameters()} == {torch.float32}


def test_gradients_are_near() -> None:
    module, x = network(), torch.randn(8, 3, 12, 12)
    other = copy.deepcopy(module)
    module(x).square().sum().backward()
    zenith.from_torch(other, (x,), precision="bf16")(x).square().sum().backward()
    for a, b in zip(module.parameters(), other.parameters(), strict=True):
        if a.grad.norm() > 1e-4:  # a bias before a batch norm has none
            assert 0 < (a.grad - b.grad).norm() / a.grad.norm() < 0.1


def test_autocast_around_a_compiled_module() -> None:
    module, x = network(), torch.randn(8, 3, 12, 12)
    compiled = torch.compile(copy.deepcopy(module), backend="zenith", options={"fallback": "error"})
    with torch.autocast("cpu", torch.bfloat16):
        found, wanted = compiled(x), module(x)
    assert found.dtype == wanted.dtype == torch.bfloat16
    assert (found - wanted).float().norm() / wanted.float().norm() < 0.1
