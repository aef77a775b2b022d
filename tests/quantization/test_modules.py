"""``zenith.quantize`` on PyTorch modules."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

import zenith  # noqa: E402
from zenith.errors import UnsupportedError  # noqa: E402


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 16)
    ).eval()


def relative(result: torch.Tensor, reference: torch.Tensor) -> float:
    return float((result - reference).norm() / reference.norm())


@pytest.mark.parametrize("scheme", ["static", "dynamic"])
@pytest.mark.parametrize("compiled", [False, True])
def test_a_module_compiled_or_not(scheme: str, compiled: bool) -> None:
    plain, batches = module(), [torch.randn(8, 32) for _ in range(50)]
    given = zenith.from_torch(plain, (batches[0],)) if compiled else plain
    small = zenith.quantize(given, batches, scheme=scheme)
    assert [product.name for product in small.report.products] == ["0.weight", "3.weight"]
    with torch.no_grad():
        for x in (torch.randn(5, 32), torch.randn(11, 32)):
            result = small(x)
            assert isinstance(result, torch.Tensor) and relative(result, plain(x)) < 0.03
    assert small.cache_info().misses == 1


def test_weights_are_those_of_the_moment() -> None:
    plain, x = module(), torch.randn(8, 32)
    small, before = zenith.quantize(plain, [x]), copy.deepcopy(plain)
    with torch.no_grad():
        plain[0].weight.zero_()
        assert relative(small(x), before(x)) < 0.03


def test_keywords_names_and_exclusion(tmp_path: Path) -> None:
    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = module()

        def forward(self, x: torch.Tensor, scale: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"y": self.body(x) * scale}

    plain, x, scale = Named().eval(), torch.randn(8, 32), torch.ones(16)
    small = zenith.quantize(plain, [{"x": x, "scale": scale}], exclude=["body.0.*"])
    assert [product.name for product in small.report.products] == ["body.3.weight"]
    with torch.no_grad():
        result = small(x=x, scale=scale)["y"]
        assert relative(result, plain(x, scale)["y"]) < 0.02
    small.save(tmp_path / "named.zenith")
    assert torch.equal(zenith.load(tmp_path / "named.zenith")(x=x, scale=scale)["y"], result)


def test_released_weights() -> None:
    plain, x = module(), torch.randn(8, 32)
    small = zenith.quantize(plain, [x], release_weights=True)
    with torch.no_grad():
        assert relative(small(x), plain(x)) < 0.03
        assert relative(small(x[:3]), plain(x[:3])) < 0.03
        with pytest.raises(zenith.ZenithError, match="were released"):
            small(x[None])


def test_a_module_without_products() -> None:
    with pytest.raises(UnsupportedError, match="a convolution"):
        zenith.quantize(torch.nn.Conv2d(3, 4, 3), [torch.randn(1, 3, 8, 8)])
