"""Batching rules against a Python loop, for every primitive and every choice of batched arguments."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.ir.cases import SUPPORTED, named, same, size_of, type_of, with_rule
from zenith.ir.builder import Builder
from zenith.ir.dims import dim
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.ir.params import normalize
from zenith.ir.primitive import Primitive, Sample
from zenith.ir.types import DType, kind_of
from zenith.ir.verify import verify

_FIRST = {p.name: t for p, t in reversed(SUPPORTED)}
_LAST = {p.name: t for p, t in SUPPORTED}
BATCHABLE = [(p, t) for p, t in with_rule("batch") if t in (_FIRST[p.name], _LAST[p.name])]


def _stack(array: Any, size: int) -> Any:
    """``size`` variants of an array with the same elements at other positions, so that indices stay valid."""
    rows = [np.roll(array.reshape(-1), i).reshape(array.shape) for i in range(size)]
    return np.stack(rows) if rows else np.zeros((0, *array.shape), array.dtype)


def _batched(primitive: Primitive, sample: Sample, flags: tuple[bool, ...], size: int, symbolic: bool) -> list[Any]:
    graph = Graph("batched")
    arrays = [np.asarray(v) for v in sample.values]
    given = [_stack(a, size) if f else a for a, f in zip(arrays, flags, strict=True)]
    inputs = []
    for i, (array, flag) in enumerate(zip(arrays, flags, strict=True)):
        type = type_of(array, symbolic)
        lead = (size_of(size, symbolic),) if flag else ()
        inputs.append(graph.add_input(type.with_shape((*lead, *type.shape)), f"x{i}"))
    params = normalize(primitive.params, sample.params)
    lead_size = dim(size_of(size, symbolic and any(flags)))
    graph.set_outputs(primitive.batch(Builder(graph), inputs, flags, lead_size, params))
    return interpret(verify(graph), *given)


def _looped(primitive: Primitive, sample: Sample, flags: tuple[bool, ...], size: int) -> list[Any]:
    arrays = [np.asarray(v) for v in sample.values]
    stacks = [_stack(a, max(size, 1)) for a in arrays]
    rows = [
        primitive.evaluate([s[i] if f else a for a, s, f in zip(arrays, stacks, flags, strict=True)], sample.params)
        for i in range(max(size, 1))
    ]
    return [np.stack([np.asarray(r) for r in results])[:size] for results in zip(*rows, strict=True)]


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize(("primitive", "dtype"), named(BATCHABLE))
def test_batching_rule_is_a_loop(primitive: Primitive, dtype: DType, symbolic: bool) -> None:
    for sample in primitive.samples(dtype.numpy):
        patterns = list(itertools.product((False, True), repeat=len(sample.values)))
        for flags in patterns[1:] or patterns:
            for size in (0, 1, 3):
                found = _batched(primitive, sample, flags, size, symbolic)
                for f, e in zip(found, _looped(primitive, sample, flags, size), strict=True):
                    if kind_of(e.dtype) in ("f", "c"):
                        assert f.dtype == e.dtype
                        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-6)
                    else:
                        assert same(f, e), (flags, size)
