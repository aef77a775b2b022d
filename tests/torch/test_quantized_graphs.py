"""Modules that PyTorch quantised: products of bytes in the program, its own results, and zero points that change."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("torch.ao.quantization.fx._decomposed")  # which registers the operators

import zenith  # noqa: E402
from tests.torch.function import Function  # noqa: E402
from zenith.torch.dynamo.report import graphs  # noqa: E402

ops = torch.ops.quantized_decomposed


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    torch.manual_seed(0)


class Blocks(torch.nn.Module):
    """A convolution, a block with a shortcut, one in groups, and a linear layer on means."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.inside = torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.Conv2d(8, 8, 3, padding=1)
        self.last, self.scores = torch.nn.Conv2d(8, 8, 1, stride=2, groups=2), torch.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.first(x))
        x = torch.relu(self.inside(x) + x)
        return self.scores(torch.relu(self.last(x)).mean((2, 3)))


def by_pt2e(module: Any, x: Any, dynamic: bool) -> Any:
    """The module as PyTorch 2 export quantises it for inductor on x86."""
    os.environ.setdefault("TORCHAO_SKIP_LOADING_SO_FILES", "1")
    with warnings.catch_warnings(action="ignore"):  # of what PyTorch deprecates
        pytest.importorskip("torchao")
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        quantizer = x86.X86InductorQuantizer()
        quantizer.set_global(x86.get_default_x86_inductor_quantization_config(is_dynamic=dynamic))
        prepared = prepare_pt2e(torch.export.export(module.eval(), (x,)).module(), quantizer)
        prepared(x)
        return convert_pt2e(prepared)


def layers() -> Any:
    return torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.ReLU(), torch.nn.Linear(40, 8))


CASES: dict[str, tuple[Callable[[], Any], tuple[int, ...], bool, int]] = {
    "static": (layers, (6, 24), False, 2),
    "dynamic": (layers, (6, 24), True, 2),
    "static tokens": (layers, (2, 3, 24), False, 2),
    "convolutions": (Blocks, (2, 3, 9, 8), False, 4),
}


def agree(found: Any, wanted: Any) -> None:
    """Within what one level in a hundred makes, which is another one where a sum's rounding decides."""
    assert found.dtype == wanted.dtype
    assert (found - wanted).norm() <= 2e-3 * wanted.norm()


@pytest.mark.parametrize(
    ("case", "way"), [*((case, "from_torch") for case in CASES), ("dynamic", "torch.compile"),
                      ("convolutions", "torch.compile")],
)  # fmt: skip
def test_pt2e(case: str, way: str, fresh_compiler: None) -> None:
    """Nothing but bytes is multiplied, and no floats lie between layers whose input is bytes."""
    make, shape, dynamic, products = CASES[case]
    x = torch.randn(shape)
    with torch.no_grad():
        module = by_pt2e(make(), x, dynamic)
        wanted = module(x)
        if way == "from_torch":
            compiled = zenith.from_torch(module, (x,))
            found, text = compiled(x), str(compiled.show("optimized"))
        else:
            found = torch.compile(module, backend="zenith", options={"fallback": "error"}, dynamic=False)(x)
            text = "\n".join(str(graph.show("optimized")) for graph in graphs())
    agree(found, wanted)
    assert text.count("_integer(") == products, text
    assert " matmul(" not in text and " conv_blocks(" not in text
    kernels = [line for line in text.splitlines() if "anchor='product'" in line or "anchor='convolution'" in line]
    assert dynamic or "u8[" in kernels[0].partition("# ")[2]


class Channels(torch.nn.Module):
    """A linear layer whose weights have a zero point for each channel, on tokens with a range of their own."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        count = shape[0]
        self.register_buffer("weight", torch.randint(-128, 128, shape, dtype=torch.int8))
        self.register_buffer("scales", torch.rand(count) / 50 + 0.01)
        self.register_buffer("zeros", torch.randint(-20, 20, (count,)))

    def matrix(self) -> Any:
        return ops.dequantize_per_channel(self.weight, self.scales, self.zeros, 0, -128, 127, torch.int8)

    def forward(self, x: Any) -> Any:
        scale, zero = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
        q = ops.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
        tokens = ops.dequantize_per_token(q, scale, zero, -128, 127, torch.int8, torch.float32)
        return torch.nn.functional.linear(tokens, self.matrix())


class Windows(Channels):
    """The same for a convolution with a border, of an input with one range."""

    def forward(self, x: Any) -> Any:
        q = ops.quantize_per_tensor(x, 0.03, 99, 0, 255, torch.uint8)
        return torch.conv2d(ops.dequantize_per_tensor(q, 0.03, 99, 0, 255, torch.uint8), self.matrix(), padding=1)


@pytest.mark.parametrize("way", ["from_torch", "torch.compile"])
@pytest.mark.parametrize(("module", "weight", "shape"), [
    (Channels, (7, 16), (2, 5, 16)), (Windows, (6, 3, 3, 3), (2, 3, 8, 9)),
])  # fmt: skip
def test_zero_points_of_weights(module: Any, weight: Any, shape: Any, way: str, fresh_compiler: None) -> None:
    """They are numbers in the program, which is made again for others."""
    layer, x = module(weight), torch.randn(shape)
    compiled = zenith.from_torch(layer, (x,)) if way == "from_torch" else torch.compile(layer, backend="zenith")
    with torch.no_grad():
        agree(compiled(x), layer(x))
        if way == "from_torch":
            text = str(compiled.show("optimized"))
            assert "_integer(" in text and "zeros" not in text
        layer.zeros.zero_()
        agree(compiled(x), layer(x))
        layer.zeros += 9
        agree(compiled(x), layer(x))


def test_a_change_of_scales_alone_compiles_nothing() -> None:
    layer, x = Channels((7, 16)), torch.randn(5, 16)
    compiled = zenith.from_torch(layer, (x,))
    with torch.no_grad():
        compiled(x)
        layer.scales *= 2
        layer.zeros.copy_(layer.zeros.clone())  # the same numbers
        agree(compiled(x), layer(x))
    assert compiled.cache_info().misses == 1


@pytest.mark.parametrize("case", [
    lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, 0.02, 99, 0, 255),
    lambda x, s, z: torch.fake_quantize_per_tensor_affine(x, s[1], z[1], -20, 31),
    lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -20, 31),
])  # fmt: skip
def test_fake_quantisation_in_compiled_training(case: Any, fresh_compiler: None) -> None:
    """Its operators have rules: nothing is left to PyTorch; ties and clipped ends are as there."""
    x, scales, zeros = (
        torch.arange(-60, 60).reshape(24, 5) / 8,
        torch.full((5,), 0.25),
        torch.arange(5, dtype=torch.int32),
    )
    results = []
    for call in (case, torch.compile(case, backend="zenith", options={"fallback": "error"})):
        given = x.clone().requires_grad_()
        result = call(given, scales, zeros)
        results.append((result.detach(), *torch.autograd.grad((result * x).sum(), given)))
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-6, atol=0)


@pytest.mark.parametrize("shift", [0.0, 3.0, -3.0])
@pytest.mark.parametrize("choose", [
    lambda x: ops.choose_qparams.tensor(x, 0, 255, 1e-4, torch.uint8),
    lambda x: ops.choose_qparams_symmetric.tensor(x, -127, 127, 1e-4, torch.int8),
    lambda x: ops.choose_qparams_symmetric.tensor(x, 0, 255, 1e-4, torch.uint8),
    lambda x: ops.choose_qparams_per_token(x, torch.int8),
    lambda x: ops.choose_qparams_per_token_asymmetric(x, torch.int8),
])  # fmt: skip
def test_ranges_of_a_call(choose: Any, shift: float) -> None:
    """Scales and zero points are PyTorch's, for ranges on both sides of zero, on one, and of nothing but zeros."""
    x = torch.cat([torch.randn(3, 8) + shift, torch.zeros(1, 8)])
    compiled = zenith.from_torch(Function(lambda x: tuple(v.double() for v in choose(x))), (x,))
    for found, wanted in zip(compiled(x), choose(x), strict=True):
        torch.testing.assert_close(found, wanted.double(), rtol=1e-7, atol=0)


def test_levels_are_those_of_pytorch() -> None:
    """To the last one: where 1 / scale is rounded decides ties."""
    x = torch.randn(4096) * 3

    def levels(x: Any) -> Any:
        scale, zero = ops.choose_qparams.tensor(x, 0, 255, 1e-4, torch.uint8)
        return (
            ops.quantize_per_tensor(x, 0.0234375 / 3, 7, -128, 127, torch.int8),
            ops.quantize_per_tensor.tensor(x, scale, zero, 0, 255, torch.uint8),
            ops.quantize_per_tensor(x.bfloat16(), 0.021, 7, -128, 127, torch.int8),
        )

    for found, wanted in zip(zenith.from_torch(Function(levels), (x,))(x), levels(x), strict=True):
        assert torch.equal(found, wanted)
