"""``zenith.quantize`` on PyTorch modules."""

from __future__ import annotations

import copy
import gc
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensor  # noqa: E402

import zenith  # noqa: E402
from zenith.errors import UnsupportedError  # noqa: E402


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(32, 64), torch.nn.LayerNorm(64), torch.nn.GELU(), torch.nn.Linear(64, 16)
    ).eval()


def relative(result: torch.Tensor, reference: torch.Tensor) -> float:
    return float((result - reference).norm() / reference.norm())


def held(shape: tuple[int, ...]) -> int:
    """How many real tensors of a shape there are."""
    gc.collect()
    found = (o for o in gc.get_objects() if isinstance(o, torch.Tensor) and not isinstance(o, FakeTensor))
    return len({t.data_ptr() for t in found if t.shape == shape and not t.is_meta})


def test_released_weights_are_gone() -> None:
    plain = torch.nn.Sequential(torch.nn.Linear(37, 41)).eval()
    small = zenith.quantize(plain, [torch.randn(8, 37)], scheme="weight_only", release_weights=True)
    assert held((41, 37)) > 1  # the module's, and a copy
    with torch.no_grad():
        small(torch.randn(8, 37))
    assert held((41, 37)) == 1


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
    with pytest.raises(UnsupportedError, match="a convolution in groups"):
        zenith.quantize(torch.nn.Conv2d(4, 4, 3, groups=2), [torch.randn(1, 4, 8, 8)])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types(dtype: torch.dtype) -> None:
    plain, x = module().to(dtype), torch.randn(64, 32, dtype=dtype)
    small = zenith.quantize(plain, [x], scheme="dynamic")
    with torch.no_grad():
        assert relative(small(x).double(), plain(x).double()) < 0.04


def test_a_recurrent_network_stays_as_it_is_inside() -> None:
    plain = torch.nn.LSTM(16, 16, batch_first=True).eval()
    x = torch.randn(3, 5, 16)
    small = zenith.quantize(plain, [x], scheme="dynamic")
    with torch.no_grad():
        assert relative(small(x)[0], plain(x)[0]) < 0.03


def test_equal_parameters_have_names_of_their_own() -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    plain = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    small = zenith.quantize(plain, [torch.randn(2, 4, 16)], scheme="dynamic")
    names = [product.name for product in small.report.products]
    assert {"layers.0.linear1.weight", "layers.1.linear1.weight"} <= set(names), names


def test_loaders_inference_mode_and_copies() -> None:
    plain, rows = module(), torch.randn(20, 32)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=5)
    small = zenith.quantize(plain, loader)
    with torch.no_grad():
        assert relative(small(rows), plain(rows)) < 0.03
    with pytest.raises(zenith.ZenithError, match="cannot be copied or pickled"):
        copy.deepcopy(small)
    with torch.inference_mode():
        made = module()
        assert relative(zenith.quantize(made, [rows])(rows), made(rows)) < 0.03
