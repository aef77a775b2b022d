"""Products of dequantised bytes are exact ones of bytes, where that is valid, and stay as they are elsewhere."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import zenith
from tests.passes.compare import program
from zenith import nn
from zenith.ir.interpret import interpret
from zenith.ir.verify import verify
from zenith.passes.dce import dce
from zenith.passes.dequantized_products import dequantized_products
from zenith.passes.integer_products import integer_products

F, D = np.float32, np.float64
EPS = float(np.finfo(F).eps)


def rewritten(function: Any, *args: Any) -> tuple[str, Any]:
    """The program as text after both passes, and its result for the arguments."""
    names = inspect.signature(function).parameters
    sizes = {name: np.shape(array) for name, array in zip(names, args, strict=False)}
    graph = zenith.jit(function, dims=sizes).lower(*args).graph
    before = str(graph)
    made = dce(verify(integer_products(dequantized_products(graph))))
    assert str(graph) == before, "the pass changed its input"
    (result,) = interpret(made, *args)
    return str(made), result


def is_exact(text: str) -> bool:
    """Whether the only products are of bytes, but for those of ones that sum windows."""
    return "_integer(" in text and "dtype=f32, shape" not in text and not _multiplies_floats(text)


def _multiplies_floats(text: str) -> bool:
    lines = [line for line in text.splitlines() if " matmul(" in line or " conv(" in line]
    return any("# f" in line for line in lines)


def levels(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape, dtype=dtype)


def zeros(rng: np.random.Generator, shape: tuple[int, ...], dtype: Any) -> Any:
    return levels(rng, shape, dtype).astype(F)


def scales(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.exp(rng.uniform(-12, 12, shape)).astype(F)


@pytest.mark.parametrize("seed", range(24))
def test_products_of_any_layout(seed: int) -> None:
    """Zeros and scales for all, rows or columns; either sign; transposed weights; batches; against float64."""
    rng = np.random.default_rng(seed)
    batch = [(), (2,), (2, 3)][rng.integers(3)]
    m, k, n = rng.integers(1, 40, 3)
    q_type, v_type = rng.choice([np.int8, np.uint8], 2)
    of_rows, of_columns = ((m, 1) if rng.integers(2) else ()), ((n,) if rng.integers(2) else ())
    transposed, shares = bool(rng.integers(2)), bool(rng.integers(2))
    q = levels(rng, (*batch, m, k), q_type)
    v = levels(rng, (*(() if shares else batch), *((n, k) if transposed else (k, n))), v_type)
    numbers = [
        scales(rng, of_rows),
        zeros(rng, of_rows, q_type),
        scales(rng, of_columns),
        zeros(rng, of_columns, v_type),
    ]

    def layer(q: Any, v: Any, s: Any, z: Any, t: Any, u: Any, dtype: Any = F) -> Any:
        x = (q.astype(dtype) - z) * s
        if transposed:
            t, u = (a[:, None] if a.ndim else a for a in (t, u))
            return x @ np.swapaxes((v.astype(dtype) - u) * t, -1, -2)
        return x @ (t * (v.astype(dtype) - u))

    wanted = layer(q, v, *(a.astype(D) for a in numbers), dtype=D)
    text, found = rewritten(layer, q, v, *numbers)
    assert is_exact(text), text
    assert found.dtype == F
    np.testing.assert_allclose(found, wanted, rtol=3 * EPS, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("seed", range(12))
def test_convolutions(seed: int) -> None:
    """With borders, strides, holes and groups; the border is the level of zero."""
    rng = np.random.default_rng(seed)
    groups, per_group, outputs = rng.integers(1, 4, 3)
    channels, outputs = groups * per_group, groups * outputs
    q_type, v_type = rng.choice([np.int8, np.uint8], 2)
    zero = int(levels(rng, (), q_type)) if rng.integers(4) else 0
    settings = {"stride": int(rng.integers(1, 3)), "padding": int(rng.integers(3)), "dilation": int(rng.integers(1, 3)),
                "groups": int(groups)}  # fmt: skip
    q = levels(rng, (2, channels, 7, 8), q_type)
    v = levels(rng, (outputs, per_group, *rng.integers(1, 4, 2)), v_type)
    t, u = scales(rng, (outputs, 1, 1, 1)), (zeros if rng.integers(2) else np.zeros_like)
    u = zeros(rng, (outputs, 1, 1, 1), v_type) if u is zeros else np.zeros((outputs, 1, 1, 1), F)

    def layer(q: Any, v: Any, t: Any, u: Any, dtype: Any = F) -> Any:
        return nn.conv((q.astype(dtype) - dtype(zero)) * dtype(0.25), (v.astype(dtype) - u) * t, **settings)

    wanted = layer(q, v, t.astype(D), u.astype(D), dtype=D)
    text, found = rewritten(layer, q, v, t, u)
    assert not _multiplies_floats(text), text
    assert ("conv_integer" in text) == (v_type == np.int8)
    np.testing.assert_allclose(found, wanted, rtol=3 * EPS, atol=1e-12 * np.abs(wanted).max())


def test_how_people_write_it() -> None:
    """Differences in integers, symmetric weights, tokens with scales of float64, a zero that is a byte."""
    rng = np.random.default_rng(0)
    q, v = levels(rng, (5, 16), np.uint8), levels(rng, (16, 6), np.int8)
    s, t = scales(rng, (5, 1)), scales(rng, (6,))
    zero = np.uint8(7)
    x, w = (q.astype(D) - 7) * s, v.astype(D) * t

    def onnx(q: Any, v: Any, s: Any, t: Any, zero: Any) -> Any:
        return (q.astype(np.int32) - zero.astype(np.int32)).astype(F) * s @ (v.astype(F) * t)

    def double(q: Any, v: Any, s: Any, t: Any, zero: Any) -> Any:
        tokens = ((q.astype(np.int64) - zero.astype(np.int64)).astype(D) * s.astype(D)).astype(F)
        return tokens @ (t * v.astype(F))

    def two_scales(q: Any, v: Any, s: Any, t: Any, zero: Any) -> Any:
        return ((q.astype(F) - 7) * 0.5 * s) @ (2 * (t * v.astype(F)))

    def weights_first(q: Any, v: Any, s: Any, t: Any, zero: Any) -> Any:
        return ((v.astype(F) * t).T @ ((q.astype(F) - np.float32(7)) * s).T).T

    for function in (onnx, double, two_scales, weights_first):
        text, found = rewritten(function, q, v, s, t, zero)
        assert is_exact(text), text
        np.testing.assert_allclose(found, x @ w, rtol=3 * EPS)
        assert "f64" not in text.replace("cast(v", "") or function is double, "zeros that are levels need no float64"


def test_a_difference_that_wraps_in_bytes() -> None:
    """It is bytes again, which are the levels."""
    rng = np.random.default_rng(0)
    q, v = levels(rng, (5, 6), np.uint8), levels(rng, (6, 6), np.int8)
    text, found = rewritten(lambda q, v: (q - np.uint8(99)).astype(F) @ v.astype(F), q, v)
    assert is_exact(text)
    np.testing.assert_array_equal(found, (q - np.uint8(99)).astype(int) @ v.astype(int))


def test_zeros_that_are_no_levels() -> None:
    """Large ones and fractions are valid for floats, so they are exact, too."""
    rng = np.random.default_rng(0)
    q, v = levels(rng, (4, 64), np.uint8), levels(rng, (64, 3), np.int8)

    def layer(q: Any, v: Any, zero: Any, dtype: Any = F) -> Any:
        return (q.astype(dtype) - zero) @ (v.astype(dtype) - dtype(0.5))

    for zero in (F(1e9), F(-3.25), F(300), F(np.nan)):
        text, found = rewritten(layer, q, v, np.asarray(zero))
        assert is_exact(text)
        np.testing.assert_allclose(found, layer(q, v, D(zero), dtype=D), rtol=3 * EPS)


def test_nothing_cancels() -> None:
    """Where all levels are those of zero, the result is 0, however large the sums of levels are."""
    rng = np.random.default_rng(0)
    v = levels(rng, (30_000, 2), np.int8)
    for zero in (np.full((1, 1), 201, F), np.full((1, 1), 201, np.uint8)):
        _, found = rewritten(
            lambda q, v, z: (q.astype(F) - z.astype(F)) @ (v.astype(F) - F(3)),
            np.full((1, 30_000), 201, np.uint8),
            v,
            zero,
        )
        assert np.array_equal(found, [[0, 0]])


def test_a_dequantised_array_that_others_read() -> None:
    rng = np.random.default_rng(0)
    q, v = levels(rng, (5, 6), np.uint8), levels(rng, (6, 6), np.int8)

    def block(q: Any, v: Any) -> Any:
        x = (q.astype(F) - 7) * F(0.25)
        return x @ (v.astype(F) * F(0.5)) + np.tile(x, (1, 1))

    text, found = rewritten(block, q, v)
    assert is_exact(text)
    x = (q.astype(D) - 7) / 4
    np.testing.assert_allclose(found, x @ (v / 2) + x, rtol=1e-6)


STAY = {
    "a scale that differs along the terms": lambda q, v, a: (q.astype(F) * a) @ v.astype(F),
    "a zero that does": lambda q, v, a: (q.astype(F) - a) @ v.astype(F),
    "weights with a scale of each term": lambda q, v, a: q.astype(F) @ (v.astype(F) * a[:, None]),
    "a difference that might wrap": lambda q, v, a: (q.astype(np.int16) - a.astype(np.int16)).astype(F) @ v.astype(F),
    "16-bit floats in between": lambda q, v, a: (q.astype(np.float16) * np.float16(0.3)).astype(F) @ v.astype(F),
    "one operand of floats": lambda q, v, a: (q.astype(F) * F(0.5) + F(0.1)) @ v.astype(F),
    "a scale before the zero": lambda q, v, a: (q.astype(F) * F(0.5) - F(3)) @ v.astype(F),
    "what is no product": lambda q, v, a: np.maximum(q.astype(F) @ a, 0),
    "float64": lambda q, v, a: q.astype(D) @ v.astype(D),
}  # fmt: skip


@pytest.mark.parametrize("case", STAY)
def test_what_stays(case: str) -> None:
    rng = np.random.default_rng(0)
    q, v, a = levels(rng, (6, 6), np.uint8), levels(rng, (6, 6), np.int8), scales(rng, (6,))
    text, found = rewritten(STAY[case], q, v, a)
    assert "_integer" not in text
    np.testing.assert_allclose(found, STAY[case](q, v, a), rtol=1e-5)


def test_sums_that_may_exceed_int32() -> None:
    """Up to 65 793 terms fit, of u8 by i8; those of a size that is not known may be more."""
    text = "v1 = cast(q, dtype=f32)\nv2 = cast(v, dtype=f32)\nv3 = matmul(v1, v2)\nreturn (v3,)"
    for terms, exact in (("65793", True), ("65794", False), ("k", False), ("0", False)):
        found = dequantized_products(program(f"q: u8[2, {terms}], v: i8[{terms}, 3]", text))
        assert ("dtype=i32" in str(found)) == exact


def test_long_programs_without_bytes() -> None:
    """Neither depth nor values that are read twice make the search long."""
    body = [
        "v1 = cast(q, dtype=f32)",
        *(f"v{i + 1} = mul(v{i}, v{i})" for i in range(1, 3000)),
        "v3001 = cast(v, dtype=f32)",
    ]
    body += [
        "v3002 = sub(v3001, v3001)",
        "v3003 = matmul(v3000, v3001)",
        "v3004 = matmul(v3001, v3000)",
        "return (v3003, v3004,)",
    ]
    graph = program("q: u8[4, 4], v: i8[4, 4]", "\n".join(body))
    assert str(dequantized_products(graph)) == str(graph)


@pytest.mark.parametrize("border", ["a border of another number", "a zero point that is no level", "an unknown one"])
def test_borders_without_a_level(border: str) -> None:
    rng = np.random.default_rng(0)
    q, v, z = levels(rng, (1, 2, 5, 5), np.uint8), levels(rng, (3, 2, 3, 3), np.int8), np.asarray(F(9))

    def layer(q: Any, v: Any, z: Any) -> Any:
        number = F(1) if border.endswith("number") else F(0)
        zero = F(7.5) if border.endswith("level") else z if border.endswith("one") else F(7)
        x = np.pad((q.astype(F) - zero) * F(0.5), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=number)
        return nn.conv(x, v.astype(F))

    text, found = rewritten(layer, q, v, z)
    assert "_integer" not in text
    np.testing.assert_allclose(found, layer(q, v, z), rtol=1e-5)


def test_compiled_bytes_stay_bytes() -> None:
    """Two layers: what is between them is bytes, the rounding of the second is in the first one's kernel."""
    rng = np.random.default_rng(0)
    x, weights = rng.standard_normal((8, 32)).astype(F), [levels(rng, (32, 32), np.int8) for _ in range(2)]

    def quantized(x: Any) -> Any:
        return np.clip(np.round(x / F(0.05)) + F(12), 0, 255).astype(np.uint8)

    def network(x: Any, v: Any, w: Any) -> Any:
        for matrix in (v, w):
            x = (quantized(x).astype(F) - F(12)) * F(0.05) @ (matrix.astype(F) * F(0.01))
        return x

    compiled = zenith.jit(network, dims={"x": (None, 32), "v": (32, 32), "w": (32, 32)})
    found, wanted = compiled(x, *weights), network(x, *weights)
    assert np.linalg.norm(found - wanted) < 0.01 * np.linalg.norm(wanted)  # one level, where a tie rounds otherwise
    text = str(compiled.show("optimized"))
    assert text.count("matmul_integer(") == 2 and "matmul(" not in text
    assert [line.partition("# ")[2][:11] for line in text.splitlines() if "anchor='product'" in line] == [
        "u8[x0, 32] ", "f32[x0, 32]"
    ]  # fmt: skip
