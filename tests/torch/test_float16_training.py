"""Training in float16 with PyTorch's scaler of losses: autocast is followed, and overflows are found and skipped."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import pytest

import zenith
from tests.torch.labelled_images import labelled_images

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional


class Convolutional(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2), nn.BatchNorm2d(16), nn.GroupNorm(4, 16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
            nn.Flatten(), nn.LayerNorm(16), nn.Linear(16, 10),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Attending(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.norm, self.head = nn.Embedding(50, 32), nn.RMSNorm(32), nn.Linear(32, 50)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0, norm_first=True)

    def forward(self, ids: Any) -> Any:
        return self.head(self.norm(self.layer(self.embedding(ids))))


class Nested(nn.Module):
    """A region of float32, and one of bfloat16, in one of float16."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: Any) -> Any:
        h = F.gelu(self.first(x))
        with torch.autocast("cpu", enabled=False):
            wide = F.softmax(h.float() @ h.float().T, -1) @ h.float()
        with torch.autocast("cpu", torch.bfloat16):
            short = self.second(wide)
        return short + self.first(wide[:, :16]).sum()


def compiled_copy(module: Any) -> tuple[Any, Any]:
    own = copy.deepcopy(module)
    return own, torch.compile(own, backend="zenith", options={"fallback": "error"})


def relative(found: Any, wanted: Any) -> float:
    return float((found.float() - wanted.float()).norm() / wanted.float().norm())


@pytest.mark.parametrize("kind", [Attending, Nested])
def test_forward_and_backward_under_autocast_are_eager_ones(kind: type[Any]) -> None:
    module = kind()
    torch.manual_seed(1)
    x = torch.randn(9, 16) if kind is Nested else torch.randint(0, 50, (3, 7))
    own, compiled = compiled_copy(module)
    with torch.autocast("cpu", torch.float16):
        wanted, found = module(x), compiled(x)
    assert found.dtype == wanted.dtype and relative(found.detach(), wanted.detach()) < 5e-3
    for result in (wanted, found):
        (4 * result.float().square().mean()).backward()
    for right, ours in zip(module.parameters(), own.parameters(), strict=True):
        assert ours.grad.dtype == right.grad.dtype == torch.float32
        if right.grad.norm() > 1e-2:  # a bias of keys has none
            assert relative(ours.grad, right.grad) < 1e-2


Steps = list[tuple[float, float, bool]]


def steps(call: Callable[[Any], Any], module: Any, count: int, scale: float, narrow: bool = True) -> Steps:
    """Losses, scales of losses, and whether weights changed, with a batch of infinities in the fifth step."""
    optimizer = torch.optim.SGD(module.parameters(), 0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=3)
    found = []
    for step, (images, labels) in enumerate(labelled_images(count)):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16) if narrow else nullcontext():
            loss = F.cross_entropy(call(images * 1e30 if step == 4 else images).float(), labels)
        before = [p.detach().clone() for p in module.parameters()]
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        moved = any(not torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))
        found.append((float(loss.detach()), scaler.get_scale(), moved))
    return found


def check(found: Steps, wanted: Sequence[float] | Steps) -> None:
    """As many steps skipped as have infinite gradients; the others learn."""
    scales = [scale for _, scale, _ in found]
    for (_, scale, moved), before in zip(found[1:], scales, strict=False):
        assert (scale < before) == (not moved)  # halved by skipped steps, and by no others
    assert not found[4][2] and any(b > a for a, b in pairwise(scales))
    assert sum(loss for loss, _, _ in found[-5:]) < 0.9 * sum(loss for loss, _, _ in found[:4]) * 5 / 4


def test_a_compiled_model_learns_with_a_scaler_as_an_eager_one_does() -> None:
    module = Convolutional()
    own, compiled = compiled_copy(module)
    wanted, found = steps(module, module, 24, 2.0**16), steps(compiled, own, 24, 2.0**16)
    check(found, wanted)
    assert [line[1:] for line in found] == [line[1:] for line in wanted]
    finite = [n for n in range(24) if n != 4]
    assert max(abs(found[n][0] - wanted[n][0]) for n in finite) < 0.01


def test_products_of_float16_learn_with_a_scaler() -> None:
    """Gradients are float32, and what overflows in the products that they come from is found in them."""
    module = Convolutional()
    fast = zenith.from_torch(module, (torch.zeros(32, 3, 12, 12),), precision="fp16")
    check(steps(fast, module, 24, 2.0**20, narrow=False), [])
    assert {p.grad.dtype for p in module.parameters()} == {torch.float32}


def test_small_gradients_are_lost_without_a_scaler_and_kept_with_it() -> None:
    layers = nn.Sequential(nn.Linear(16, 16, bias=False), nn.Linear(16, 8, bias=False))
    torch.manual_seed(0)
    for layer in layers:
        nn.init.normal_(layer.weight)
    fast, x = zenith.from_torch(layers, (torch.zeros(4, 16),), precision="fp16"), torch.randn(4, 16)
    (layers(x).sum() * 1e-9).backward()
    wanted = layers[0].weight.grad.clone()
    for scale, lost in ((1.0, True), (2.0**24, False)):
        layers.zero_grad()
        (fast(x).sum() * (1e-9 * scale)).backward()
        found = layers[0].weight.grad / scale
        assert (relative(found, wanted) > 0.5) == lost and (lost or relative(found, wanted) < 2e-3)
