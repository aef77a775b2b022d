"""How far a program's results may be from the reference, found by running it in the interpreter.

A floating-point or complex element may differ from the double-precision result by 4 times the larger of two things:
the error of the reference itself, ``|ref32 - ref64|``, and the largest change over 8 runs in which every node is
perturbed by its declared ulp (a sum's or product's terms by its ulp, as the order of its additions is free). What a
library computes is declared in units of the largest element: of a matrix, for which LAPACK's results are exact at some
other matrix that near, or of a spectrum. Integers and bools are exact. An element that a discrete decision moved in one
of these runs is left out and counted.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.ir import params as params_
from zenith.ir.graph import Graph, Node
from zenith.ir.interpret import bind_sizes, interpret
from zenith.ir.lowering import Composite, Fold, HostCall, Prefix, Scatter, Tile, complex_error
from zenith.ir.retype import array_in_double, in_double
from zenith.ir.types import ArrayType, kind_of

INEXACT = ("f", "c")
RUNS = 8
FACTOR = 4.0
_SIGNS = np.array([[1 - 2 * ((row & column).bit_count() % 2) for column in range(RUNS)] for row in range(RUNS)])
_SAME_ULPS = 64  # floats as near as this may be equal in another evaluation; a perturbation hardly ever makes them so
_LOOSE = 1e-2  # an element whose bound is above this, relative to max(1, |ref|), was moved by a decision
_LOOSE_NARROW = 0.3  # the same in programs with 16-bit floats: bfloat16 has two digits


@dataclass(frozen=True)
class Bound:
    """One output: the reference (float64, or the exact integers or bools), how far off is allowed, and where."""

    reference: Any
    tolerance: Any
    compared: Any


def reference_bounds(graph: Graph, args: Sequence[Any]) -> list[Bound]:
    """The bound of every output of ``graph`` on ``args``; each is an array of the output's shape."""
    wide = interpret(in_double(graph), *map(array_in_double, args))
    plain = interpret(graph, *args)
    runs = [interpret(graph, *args, watch=perturbation(graph, args, run)) for run in range(RUNS)]
    narrow = any(isinstance(t, ArrayType) and t.dtype.is_narrow for node in graph.walk() for t in node.types)
    loose = _LOOSE_NARROW if narrow else _LOOSE
    own = [graph.node(v.node).primitive.ulp for v in graph.outputs]
    return [_bound(wide[i], plain[i], [run[i] for run in runs], loose, own[i]) for i in range(len(plain))]


def violations(results: Sequence[Any], bounds: Sequence[Bound]) -> list[str]:
    """What is wrong with results, a line for each output; empty when all is within bounds."""
    found = []
    for i, (result, bound) in enumerate(zip(results, bounds, strict=True)):
        result = np.asarray(result)
        if result.shape != np.shape(bound.reference):
            found.append(f"output {i}: shape {result.shape}, not {np.shape(bound.reference)}")
            continue
        wrong = bound.compared & ~_near(result, bound)
        if wrong.any():
            index = tuple(int(i) for i in np.argwhere(wrong)[0])
            found.append(
                f"output {i}: {wrong.sum()} of {wrong.size} elements differ, first at {index}: {result[index]!r}, "
                f"not {bound.reference[index]!r} +- {bound.tolerance[index]:.3g}"
            )
    return found


def discarded(bounds: Sequence[Bound]) -> float:
    """The share of elements that are left out."""
    total = sum(b.compared.size for b in bounds)
    return sum(int((~b.compared).sum()) for b in bounds) / total if total else 0.0


def _near(result: Any, bound: Bound) -> Any:
    reference = bound.reference
    if kind_of(reference.dtype) not in INEXACT:
        return result == reference
    with np.errstate(all="ignore"):
        close = np.abs(result.astype(reference.dtype) - reference) <= bound.tolerance
    return close | (result == reference) | (np.isnan(result) & np.isnan(reference))


def _bound(wide: Any, plain: Any, runs: Sequence[Any], loose: float, own: float) -> Bound:
    """``own`` is the declared ulp of the output's node: where slopes fall, its move may undo an operand's."""
    if kind_of(plain.dtype) not in INEXACT:
        same = np.asarray(np.logical_and.reduce([np.asarray(r == plain) for r in (wide, *runs)]))
        return Bound(np.asarray(plain), np.zeros(plain.shape), same)
    double = np.complex128 if kind_of(plain.dtype) == "c" else np.float64
    reference = np.asarray(wide, double)
    everything = [np.asarray(r, double) for r in (plain, *runs)]
    with np.errstate(all="ignore"):
        change = [np.abs(r - everything[0]) for r in everything[1:]]
        unit = np.ceil(own) * np.spacing(np.abs(plain)).astype(np.float64)
        tolerance = FACTOR * np.maximum.reduce([np.abs(everything[0] - reference), unit, *change])
        compared = tolerance <= loose * np.maximum(1.0, np.abs(reference))
    special = ~np.isfinite(reference)  # nan and infinity: exact, where every run has it
    agreed = np.logical_and.reduce([(r == reference) | (np.isnan(r) & np.isnan(reference)) for r in everything])
    return Bound(reference, np.where(special, 0.0, tolerance), np.where(special, agreed, compared))


def perturbation(graph: Graph, args: Sequence[Any], run: int) -> Callable[..., tuple[Any, ...]]:
    """A watch for the interpreter that moves what each node computes up or down by its ulp (rounded up).

    Signs come from a Hadamard matrix with a column for each run: two nodes that follow each other, or two neighbouring
    elements, move together in half of the runs and apart in the other half. So errors do not cancel in all of them,
    which random signs do once in 2 ** RUNS elements.
    """
    sizes, count = bind_sizes(graph, list(args), {}), itertools.count()

    def move(array: Any, ulp: float, axes: tuple[int, ...] = ()) -> Any:
        """By units of each element, or of the largest one along ``axes``."""
        if array is None or kind_of(array.dtype) not in INEXACT or ulp == 0 or (axes and array.size == 0):
            return array
        position = sum((axis + 1) * index for axis, index in enumerate(np.indices(array.shape, sparse=True)))
        rows = 1 + np.broadcast_to(position + next(count), array.shape) % (RUNS - 1)
        with np.errstate(all="ignore"):
            unit = np.spacing(np.max(np.abs(array), axis=axes, keepdims=True) if axes else np.abs(array))
            step = (_SIGNS[rows, run] * np.ceil(ulp) * unit).astype(array.dtype)
            if kind_of(array.dtype) == "c":  # real and imaginary part, each by the error of both
                other = _SIGNS[1 + rows % (RUNS - 1), run]  # another row: each part moves in both directions
                step = step * (_SIGNS[rows, run] * other + 1j).astype(array.dtype)
            return np.where(((array == 0) & (not axes)) | ~np.isfinite(array), array, array + step)

    def watch(node: Node, operands: Sequence[Any], results: tuple[Any, ...]) -> tuple[Any, ...]:
        how, ulp = node.primitive.lowering, node.primitive.ulp
        if any(r is not None and kind_of(np.asarray(r).dtype) == "c" for r in results):
            ulp = complex_error(how, ulp)
        if isinstance(how, HostCall):
            return _of_library(node, sizes, operands, results, lambda array, axes: move(array, ulp, axes))
        if ulp and (isinstance(how, Fold | Prefix | Tile | Scatter) or (isinstance(how, Composite) and how.sums)):
            params = params_.evaluate(node.primitive.params, node.params, sizes)
            results = node.primitive.evaluate([move(a, ulp) for a in operands], params)
        if node.primitive.name in ("eq", "ne"):
            results = (_decided(node.primitive.name, run, *operands, *results),)
        return tuple(move(np.asarray(r), ulp) if r is not None else None for r in results)

    return watch


def _of_library(
    node: Node, sizes: Mapping[str, int], operands: Sequence[Any], results: tuple[Any, ...], move: Callable[..., Any]
) -> tuple[Any, ...]:
    """LAPACK's results for perturbed matrices, or a perturbed spectrum; other results are perturbed by element."""
    how = node.primitive.lowering
    params = params_.evaluate(node.primitive.params, node.params, sizes)
    if isinstance(how, HostCall) and how.module == "linalg":
        axes = ((), (-1,), (-2, -1))
        results = node.primitive.evaluate([move(np.asarray(a), axes[min(np.ndim(a), 2)]) for a in operands], params)
        return tuple(move(np.asarray(r), ()) for r in results)
    if isinstance(how, HostCall) and how.module == "fft":
        return tuple(move(np.asarray(r), params.get("axes", (-1,))) for r in results)
    return tuple(move(r if r is None else np.asarray(r), ()) for r in results)


def _decided(name: str, run: int, a: Any, b: Any, result: Any) -> Any:
    """A comparison's result; where floats are nearly equal every second run takes them as equal, the others not."""
    if kind_of(a.dtype) not in INEXACT:
        return result
    with np.errstate(all="ignore"):
        apart = np.abs(a - b)
        near = (apart <= _SAME_ULPS * np.spacing(np.maximum(np.abs(a), np.abs(b)))) & np.isfinite(apart)
    return np.where(near & (apart > 0), (name == "eq") == (run % 2 == 0), result)
