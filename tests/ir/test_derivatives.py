"""Derivative rules against central differences, and forward against reverse, for every primitive in double precision.

A cotangent c of a complex value belongs to its change t by the real part of ``c * t`` (JAX's convention).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.ir.cases import READ_ONE_TRIANGLE, apply, named, start, type_of, with_rule
from zenith.ir.interpret import interpret
from zenith.ir.ops.common import random_array
from zenith.ir.primitive import Primitive, Sample
from zenith.ir.types import DType, complex128, float64, kind_of
from zenith.ir.verify import verify

MOVING, SINGLE = ("f", "c"), (np.float32, np.complex64)
DIFFERENTIABLE = [(p, t) for p, t in with_rule("jvp") if t in (float64, complex128)]


def _samples(primitive: Primitive, dtype: DType) -> list[Sample]:
    """Samples whose results are fine enough for differences: not 16-bit floats."""
    samples = primitive.samples(dtype.numpy)
    return [s for s in samples if "dtype" not in s.params or not s.params["dtype"].is_narrow]


def _directions(sample: Sample, seed: int) -> list[Any]:
    """A random direction for every floating-point or complex argument, None for the others."""
    rng = np.random.default_rng(seed)
    arrays = [np.asarray(v) for v in sample.values]
    return [_direction(rng, a) if kind_of(a.dtype) in MOVING else None for a in arrays]


def _direction(rng: Any, array: Any) -> Any:
    return random_array(rng, array.dtype, array.shape, -1.0, 1.0)


def _forward(primitive: Primitive, sample: Sample, tangents: Sequence[Any], symbolic: bool) -> list[Any]:
    """Tangents of the results by the jvp rule, None where it says zero."""
    builder, inputs, arrays = start(sample, symbolic)
    outputs = apply(builder, primitive, inputs, sample.params)
    given = [
        None if t is None else builder.graph.add_input(type_of(t, symbolic), f"t{i}") for i, t in enumerate(tangents)
    ]
    params = builder.graph.node(outputs[0].node).params
    found = primitive.jvp(builder, inputs, given, outputs, params)
    return _run(builder, found, [*arrays, *(t for t in tangents if t is not None)])


def _reverse(primitive: Primitive, sample: Sample, cotangents: Sequence[Any], symbolic: bool) -> list[Any]:
    """Cotangents of the arguments by the vjp rule, None where it says zero."""
    builder, inputs, arrays = start(sample, symbolic)
    outputs = apply(builder, primitive, inputs, sample.params)
    given = [builder.graph.add_input(v.type, f"c{i}") for i, v in enumerate(outputs)]
    params = builder.graph.node(outputs[0].node).params
    found = primitive.vjp(builder, inputs, outputs, given, params)
    return _run(builder, found, [*arrays, *cotangents])


def _run(builder: Any, found: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    builder.graph.set_outputs(v for v in found if v is not None)
    results = iter(interpret(verify(builder.graph), *arrays))
    return [None if v is None else next(results) for v in found]


def _differences(primitive: Primitive, sample: Sample, tangents: Sequence[Any]) -> list[Any]:
    arrays = [np.asarray(v) for v in sample.values]
    plain = primitive.evaluate(arrays, sample.params)
    step = 1e-2 if any(np.asarray(r).dtype in SINGLE for r in plain) else 1e-6
    if primitive.name in READ_ONE_TRIANGLE:
        tangents = [None if t is None else (t + np.conj(np.swapaxes(t, -1, -2))) / 2 for t in tangents]

    def move(sign: float) -> tuple[Any, ...]:
        args = [a if t is None else a + sign * step * t for a, t in zip(arrays, tangents, strict=True)]
        return primitive.evaluate(args, sample.params)

    return [_quotient(u, d, 2 * step) for u, d in zip(move(1), move(-1), strict=True)]


def _quotient(up: Any, down: Any, step: float) -> Any:
    double = np.complex128 if kind_of(np.asarray(up).dtype) == "c" else np.float64
    up, down = np.asarray(up, double), np.asarray(down, double)
    with np.errstate(invalid="ignore"):  # infinity minus itself, where a reduction of nothing is infinite
        return np.where(up == down, 0.0, (up - down) / step)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(("primitive", "dtype"), named(DIFFERENTIABLE))
def test_forward_rule_is_the_central_difference(primitive: Primitive, dtype: DType, symbolic: bool) -> None:
    for seed, sample in enumerate(_samples(primitive, dtype)):
        every = _directions(sample, seed)
        for keep in itertools.product((True, False), repeat=len(every)):  # each subset of arguments varies
            tangents = [t if k else None for t, k in zip(every, keep, strict=True)]
            expected = _differences(primitive, sample, tangents)
            found = _forward(primitive, sample, tangents, symbolic)
            for f, e in zip(found, expected, strict=True):
                np.testing.assert_allclose(np.zeros_like(e) if f is None else f, e, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(("primitive", "dtype"), named(DIFFERENTIABLE))
def test_reverse_rule_is_the_transpose_of_the_forward_rule(primitive: Primitive, dtype: DType, symbolic: bool) -> None:
    for seed, sample in enumerate(_samples(primitive, dtype)):
        tangents = _directions(sample, seed)
        plain = [np.asarray(r) for r in primitive.evaluate([np.asarray(v) for v in sample.values], sample.params)]
        if all(kind_of(r.dtype) not in MOVING for r in plain):
            continue  # a cast to integers: there is nothing to send back
        rng = np.random.default_rng(seed + 99)
        cotangents = [_direction(rng, r) if kind_of(r.dtype) in MOVING else np.zeros_like(r) for r in plain]
        forward = _forward(primitive, sample, tangents, symbolic)
        reverse = _reverse(primitive, sample, cotangents, symbolic)
        for argument, back in zip(sample.values, reverse, strict=True):
            assert back is None or (back.shape, back.dtype) == (np.shape(argument), np.asarray(argument).dtype)
        left = sum(np.sum(c * f).real for c, f in zip(cotangents, forward, strict=True) if f is not None)
        right = sum(np.sum(b * t).real for b, t in zip(reverse, tangents, strict=True) if b is not None)
        rtol = 1e-5 if any(r.dtype in SINGLE for r in plain) else 1e-9
        np.testing.assert_allclose(left, right, rtol=rtol, atol=rtol)


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("maximum", (2.0, 2.0), (0.5, 0.5)), ("minimum", (2.0, 2.0), (0.5, 0.5)), ("abs", (0.0,), (0.0,)),
        ("power", (0.0, 0.0), (0.0, 0.0)), ("power", (-2.0, 2.0), (-4.0, 0.0)),
    ],
)  # fmt: skip
def test_points_without_derivative_take_the_documented_value(
    name: str, args: tuple[float, ...], expected: tuple[float, ...]
) -> None:
    from zenith.ir.primitive import get

    sample = Sample(tuple(np.float64(a) for a in args), {})
    found = _reverse(get(name), sample, [np.float64(1.0)], False)
    np.testing.assert_array_equal(found, expected)


def test_product_rule_counts_zeros() -> None:
    from zenith.ir.primitive import get

    for x, expected in (([2.0, 0.0, 3.0], [0.0, 6.0, 0.0]), ([0.0, 0.0, 3.0], [0.0, 0.0, 0.0])):
        (found,) = _reverse(get("reduce_prod"), Sample((np.float64(x),), {"axes": (0,)}), [np.float64(1.0)], False)
        assert found.tolist() == expected
