"""Every primitive, element type and sample on every backend, against the interpreter; then edge cases."""

from __future__ import annotations

import itertools
import platform
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.backends.running import add_sample, call, check, compiled
from tests.ir.cases import SUPPORTED, in_turn
from zenith.ir.builder import Builder
from zenith.ir.graph import Graph
from zenith.ir.lowering import Scalar, Tile, complex_error
from zenith.ir.primitive import Primitive, Sample, all_primitives
from zenith.ir.retype import array_in_double
from zenith.ir.types import DTYPES, ArrayType, DType, bool_, dtype_of, float32, kind_of, uint32

ELEMENTWISE = [p for p in all_primitives() if isinstance(p.lowering, Scalar) and not p.params]
GPU = pytest.param("cuda", marks=pytest.mark.gpu)
OTHERS = [p for p in dict(SUPPORTED) if p not in ELEMENTWISE]


def _plain_cases() -> Iterator[Any]:
    """On lanes one of the types that are alike, by the scalar printer one of all."""
    for number, primitive in enumerate(dict(SUPPORTED)):
        own = [t for p, t in SUPPORTED if p is primitive]
        chosen = {"lanes": {t for t in own if in_turn(number, t)}, "scalar": {own[number % len(own)]}}
        for backend, dtype in itertools.product(chosen, own):
            marks = [] if dtype in chosen[backend] else [pytest.mark.thorough]
            yield pytest.param(primitive, dtype, backend, marks=marks, id=f"{primitive.name}-{dtype}-{backend}")


@pytest.mark.parametrize(("primitive", "dtype", "backend"), list(_plain_cases()))
def test_samples_on_kernels_as_plain_python(primitive: Primitive, dtype: DType, backend: str) -> None:
    for sample in primitive.samples(dtype.numpy):
        for symbolic in (True, False):
            graph = Graph("case")
            args = add_sample(graph, primitive, sample, symbolic, {})
            check(call(compiled(graph, backend), graph, args), graph, args)


# They compile longest.
LONG = ("attention", "attention_vjp", "conv", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "sort", "top_k")


def _planned_cases() -> Iterator[Any]:
    """Each primitive on float32 and two more, and on those that are left; as planned for a GPU every second one."""
    for number, primitive in enumerate(OTHERS):
        own = [t for p, t in SUPPORTED if p is primitive]
        first = {float32, *(own[(number + k * len(own) // 2) % len(own)] for k in range(2))}
        groups = [t for t in own if t in first], [t for t in own if t not in first]
        for dtypes, rest in zip(groups, ([], ["rest"]), strict=True):
            for backend in ("cpu", "cuda on lanes", "cuda") if dtypes else ():
                later = bool(rest) or primitive.name in LONG or (backend == "cuda on lanes" and number % 2 == 1)
                marks = [pytest.mark.thorough] * later + [pytest.mark.gpu] * (backend == "cuda")
                name = "-".join([primitive.name, *rest, backend])
                yield pytest.param(primitive, dtypes, backend, marks=marks, id=name)


@pytest.mark.parametrize(("primitive", "dtypes", "backend"), list(_planned_cases()))
def test_samples_as_planned_for_each_target(primitive: Primitive, dtypes: list[DType], backend: str) -> None:
    """Sample k of all element types is one program, whose kernels other samples share: sizes are symbols."""
    samples = [list(primitive.samples(t.numpy)) for t in dtypes]
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


@pytest.mark.parametrize("primitive", [p for p in OTHERS if isinstance(p.lowering, Tile)], ids=lambda p: p.name)
def test_tiles_read_operands_at_any_strides(primitive: Primitive) -> None:
    """Every matrix is there with its last two axes swapped, and a transpose in the graph."""
    dtype = next(t for t in (float32, *DTYPES) if list(primitive.samples(t.numpy)))
    graph, args = Graph("swapped"), list[np.ndarray]()
    for sample in primitive.samples(dtype.numpy):
        values = []
        for array in map(np.asarray, sample.values):
            is_matrix = array.ndim > 1
            args.append(np.ascontiguousarray(np.swapaxes(array, -1, -2)) if is_matrix else array)
            given, axes = args[-1], (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
            value = graph.add_input(ArrayType(dtype_of(given.dtype), given.shape), f"x{len(args)}")
            values.append(Builder(graph).transpose(value, axes=axes) if is_matrix else value)
        graph.set_outputs([*graph.outputs, *graph.add(primitive, values, sample.params)])
    check(call(compiled(graph, "cpu"), graph, args), graph, args)


# --- elementwise primitives: all of an element type are one program, on samples and edges ------------------------

_FLOAT_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -1.5, 2.5, 3.0, 1e-3, 40.0, -40.0, 200.0, 1e30, np.inf, -np.inf, np.nan)


_COMPONENT_EDGES = (0.0, -0.0, 1.0, -1.5, 3.0, 1e-3, np.inf, -np.inf, np.nan)  # products of these do not overflow


def _edges(dtype: DType) -> Any:
    if dtype.is_complex:
        real, imag = (edge.ravel() for edge in np.meshgrid(_COMPONENT_EDGES, _COMPONENT_EDGES))
        edges = np.empty(real.size, dtype.numpy)
        edges.real, edges.imag = real, imag
        return edges
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


def _cases() -> Iterator[Any]:
    """Element types, numbers of operands, and the primitives: all, of types that are alike some in turn."""
    for dtype, arity in itertools.product(DTYPES, (1, 2, 3)):
        primitives = [p for p in ELEMENTWISE if _arity(p, dtype) == arity]
        some = [p for number, p in enumerate(primitives) if in_turn(number, dtype)]
        if len(some) < len(primitives):
            yield pytest.param(dtype, arity, primitives, marks=pytest.mark.thorough, id=f"{dtype}-{arity}-all")
        if some:
            yield pytest.param(dtype, arity, some, id=f"{dtype}-{arity}")


def _arity(primitive: Primitive, dtype: DType) -> int:
    return next((len(s.values) for s in primitive.samples(dtype.numpy)), 0)


@pytest.mark.parametrize("backend", ["cpu", "lanes", GPU])
@pytest.mark.parametrize(("dtype", "arity", "primitives"), list(_cases()))
def test_elementwise_primitives_at_the_edges(
    dtype: DType, arity: int, primitives: list[Primitive], backend: str
) -> None:
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
    """The error in a result, or an empty text: exact, or within the declared error of the value in a wider type."""
    (expected,) = primitive.evaluate(args, {})
    with np.errstate(all="ignore"):
        if kind_of(expected.dtype) == "c":
            good = _within_complex(primitive, args, result, expected)
        elif primitive.ulp == 0 or kind_of(expected.dtype) != "f":
            good = _identical(result, expected, signs=primitive.name not in ("maximum", "minimum"))
        else:
            good = _within(primitive, args, result, expected)
    if good.all():
        return ""
    at = int(np.argmin(good))
    return f"{primitive.name}({', '.join(repr(a[at]) for a in args)}) is {expected[at]!r}, not {result[at]!r}"


def _identical(result: Any, expected: Any, signs: bool) -> Any:
    if kind_of(expected.dtype) == "c":
        return _identical(result.real, expected.real, signs) & _identical(result.imag, expected.imag, signs)
    if kind_of(expected.dtype) != "f":
        return result == expected
    same_sign = (np.signbit(result) == np.signbit(expected)) | (not signs)
    return ((result == expected) & same_sign) | (np.isnan(result) & np.isnan(expected))


def _within(primitive: Primitive, args: Sequence[Any], result: Any, expected: Any) -> Any:
    """float32 against float64; float64 against NumPy, whose own error is at most one more unit."""
    double = expected.dtype == np.float64
    wide = expected if double else primitive.evaluate([array_in_double(a) for a in args], {})[0]
    unit = np.spacing(np.abs(np.where(np.isfinite(expected), expected, ml_dtypes.finfo(expected.dtype).max)))
    close = np.abs(result.astype(np.float64) - wide) <= (primitive.ulp + double) * unit.astype(np.float64)
    return close | _identical(result, expected, signs=True)


def _within_complex(primitive: Primitive, args: Sequence[Any], result: Any, expected: Any) -> Any:
    """The same by magnitudes where the result is finite; else components are nan, infinite or a number as NumPy's."""
    double = expected.dtype == np.complex128
    wide = expected if double else primitive.evaluate([array_in_double(a) for a in args], {})[0]
    ulp = complex_error(primitive.lowering, primitive.ulp) + double
    close = np.abs(result - wide) <= ulp * np.spacing(np.abs(expected)).astype(np.float64)
    pairs = [(result.real, expected.real), (result.imag, expected.imag)]
    uncertain = np.isnan(expected)  # next to nan the sign of an infinity is unspecified
    alike = [
        (np.isnan(r) & np.isnan(e))
        | (np.isfinite(r) & np.isfinite(e))
        | (r == e)
        | (uncertain & np.isinf(r) & np.isinf(e))
        for r, e in pairs
    ]
    return close | (alike[0] & alike[1] & ~np.isfinite(expected))


_NEAR_INTEGERS = np.array(
    [127.5, 128.5, 255.5, 256.5, -129, 32768, 65536, -7e4, 2.0**31, 2.0**32, 2.0**63, 1.2e19, 2.0**64]
)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="NumPy's own conversions differ elsewhere")
@pytest.mark.parametrize("backend", ["cpu", "lanes", GPU])
def test_casts_at_the_edges(backend: str) -> None:
    cast = next(p for p in all_primitives() if p.name == "cast")
    graph = Graph("casts")
    args = [_edges(t) for t in DTYPES]
    with np.errstate(over="ignore"):
        args = [np.append(a, _NEAR_INTEGERS.astype(a.dtype)) if kind_of(a.dtype) == "f" else a for a in args]
    inputs = [
        graph.add_input(ArrayType(t, a.shape), f"x{i}") for i, (t, a) in enumerate(zip(DTYPES, args, strict=True))
    ]
    graph.set_outputs(graph.add(cast, (x,), {"dtype": t})[0] for x in inputs for t in DTYPES)
    results = iter(call(compiled(graph, backend), graph, args))
    for array in args:
        for target in DTYPES:
            (expected,) = cast.evaluate([array], {"dtype": target})
            result = next(results)
            good = _identical(result, expected, signs=True)
            if kind_of(array.dtype) in ("f", "c") and target == uint32:  # beyond, NumPy's answer depends on its loop
                good |= ~(np.abs(array_in_double(array.real)) < 2**31)
            assert good.all(), f"{array[~good]} as {target} is {expected[~good]}, not {result[~good]}"
