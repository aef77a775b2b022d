"""Every primitive, element type and sample on every backend, against the interpreter; then what is at the edges."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.backends.running import add_sample, call, check, compiled
from tests.ir.cases import SUPPORTED, named
from tests.rewrite import widen_array
from zenith.ir.graph import Graph
from zenith.ir.lowering import Scalar
from zenith.ir.primitive import Primitive, Sample, all_primitives
from zenith.ir.types import DTYPES, ArrayType, DType, bool_, dtype_of, kind_of, uint32

ELEMENTWISE = [p for p in all_primitives() if isinstance(p.lowering, Scalar) and not p.params]
GPU = pytest.param("cuda", marks=pytest.mark.gpu)
OTHERS = [p for p in dict(SUPPORTED) if p not in ELEMENTWISE]


@pytest.mark.parametrize("backend", ["lanes", "scalar"])
@pytest.mark.parametrize(("primitive", "dtype"), named(SUPPORTED))
def test_samples_on_kernels_as_plain_python(primitive: Primitive, dtype: DType, backend: str) -> None:
    for sample in primitive.samples(dtype.numpy):
        for symbolic in (True, False):
            graph = Graph("case")
            args = add_sample(graph, primitive, sample, symbolic, {})
            check(call(compiled(graph, backend), graph, args), graph, args)


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes", GPU])
@pytest.mark.parametrize("primitive", OTHERS, ids=lambda p: p.name)
def test_samples_as_planned_for_each_target(primitive: Primitive, backend: str) -> None:
    """Sample k of all element types is one program, whose kernels other samples share: sizes are symbols."""
    samples = [list(primitive.samples(t.numpy)) for t in DTYPES]
    for k in range(max(map(len, samples))):
        graph, sizes, args = Graph("samples"), dict[int, str](), []
        for sample in (s[k] for s in samples if k < len(s)):
            args += add_sample(graph, primitive, sample, True, sizes)
        check(call(compiled(graph, backend), graph, args), graph, args)


@pytest.mark.parametrize("backend", ["cpu", "cuda on lanes", GPU])
def test_samples_of_static_sizes(backend: str) -> None:
    """The fuzzer runs many static programs; here one has each primitive that is not elementwise."""
    graph, args = Graph("samples"), []
    for primitive in OTHERS:
        dtype = next(t for t in reversed(DTYPES) if list(primitive.samples(t.numpy)))
        args += add_sample(graph, primitive, list(primitive.samples(dtype.numpy))[-1], False, {})
    check(call(compiled(graph, backend), graph, args), graph, args)


# --- elementwise primitives: all of an element type are one program, on samples and edges ------------------------

_FLOAT_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.0, 1e-3, 40.0, -40.0, 200.0, 1e30, np.inf, -np.inf, np.nan)


def _edges(dtype: DType) -> Any:
    if dtype == bool_:
        return np.array([False, True])
    if dtype.is_float:
        info = ml_dtypes.finfo(dtype.numpy)
        with np.errstate(over="ignore"):
            edges = np.array([*_FLOAT_EDGES, info.max, info.min, info.tiny, info.smallest_subnormal])
            return edges.astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    small = [n for n in (0, 1, 2, 3, 7, 31, 32, 33, 63, 64, -1, -2, -7) if n >= info.min]
    return np.array([*small, info.min, info.max, info.max // 2], dtype.numpy)


def _operands(primitive: Primitive, dtype: DType) -> list[Any]:
    """Every sample, then every combination of edges, as vectors of one length for each operand."""
    samples = list(primitive.samples(dtype.numpy))
    types = [dtype_of(np.asarray(v).dtype) for v in samples[0].values]
    grids = np.meshgrid(*[_edges(t) for t in types if t is not None], indexing="ij")
    columns = zip(*[s.values for s in samples], strict=True)
    return [np.concatenate([*map(np.ravel, column), grid.ravel()]) for column, grid in zip(columns, grids, strict=True)]


def _cases() -> Iterator[tuple[DType, int]]:
    for dtype in DTYPES:
        for arity in (1, 2, 3):
            if any(p for p in ELEMENTWISE if _arity(p, dtype) == arity):
                yield dtype, arity


def _arity(primitive: Primitive, dtype: DType) -> int:
    return next((len(s.values) for s in primitive.samples(dtype.numpy)), 0)


@pytest.mark.parametrize("backend", ["cpu", "lanes", GPU])
@pytest.mark.parametrize(("dtype", "arity"), list(_cases()), ids=str)
def test_elementwise_primitives_at_the_edges(dtype: DType, arity: int, backend: str) -> None:
    primitives = [p for p in ELEMENTWISE if _arity(p, dtype) == arity]
    graph, args = Graph("edges"), []
    for primitive in primitives:
        args += add_sample(graph, primitive, Sample(tuple(_operands(primitive, dtype)), {}), True, {0: "n"})
    results = call(compiled(graph, backend), graph, args)
    rest = iter(args)
    wrong = [
        message for primitive, result in zip(primitives, results, strict=True)
        if (message := _wrong(primitive, [next(rest) for _ in range(arity)], result))
    ]  # fmt: skip
    assert not wrong, "\n".join(wrong)


def _wrong(primitive: Primitive, args: Sequence[Any], result: Any) -> str:
    """What is wrong with a result, or nothing: exact, or within the declared error of the value in a wider type."""
    (expected,) = primitive.evaluate(args, {})
    with np.errstate(all="ignore"):
        if primitive.ulp == 0 or kind_of(expected.dtype) != "f":
            good = _identical(result, expected, signs=primitive.name not in ("maximum", "minimum"))
        else:
            good = _within(primitive, args, result, expected)
    if good.all():
        return ""
    at = int(np.argmin(good))
    return f"{primitive.name}({', '.join(repr(a[at]) for a in args)}) is {expected[at]!r}, not {result[at]!r}"


def _identical(result: Any, expected: Any, signs: bool) -> Any:
    if kind_of(expected.dtype) != "f":
        return result == expected
    same_sign = (np.signbit(result) == np.signbit(expected)) | (not signs)
    return ((result == expected) & same_sign) | (np.isnan(result) & np.isnan(expected))


def _within(primitive: Primitive, args: Sequence[Any], result: Any, expected: Any) -> Any:
    """float32 against float64; float64 against NumPy, whose own error is at most one more unit."""
    double = expected.dtype == np.float64
    wide = expected if double else primitive.evaluate([widen_array(a) for a in args], {})[0]
    unit = np.spacing(np.abs(np.where(np.isfinite(expected), expected, ml_dtypes.finfo(expected.dtype).max)))
    close = np.abs(result.astype(np.float64) - wide) <= (primitive.ulp + double) * unit.astype(np.float64)
    return close | _identical(result, expected, signs=True)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="NumPy's own conversions differ elsewhere")
@pytest.mark.parametrize("backend", ["cpu", "lanes", GPU])
def test_casts_at_the_edges(backend: str) -> None:
    cast = next(p for p in all_primitives() if p.name == "cast")
    graph = Graph("casts")
    inputs = [graph.add_input(ArrayType(t, _edges(t).shape), f"x{i}") for i, t in enumerate(DTYPES)]
    graph.set_outputs(graph.add(cast, (x,), {"dtype": t})[0] for x in inputs for t in DTYPES)
    args = [_edges(t) for t in DTYPES]
    results = iter(call(compiled(graph, backend), graph, args))
    for array in args:
        for target in DTYPES:
            (expected,) = cast.evaluate([array], {"dtype": target})
            result = next(results)
            good = _identical(result, expected, signs=True)
            if kind_of(array.dtype) == "f" and target == uint32:  # beyond, NumPy's answer depends on its loop
                good |= ~(np.abs(widen_array(array)) < 2**31)
            assert good.all(), f"{array[~good]} as {target} is {expected[~good]}, not {result[~good]}"
