"""Every primitive on every sample of every element type, as graphs: what the registry-driven tests run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import zenith.ir.ops  # noqa: F401  fills the registry
from zenith.ir.builder import Builder
from zenith.ir.dims import DimLike, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import NoRule, Primitive, Sample, all_primitives
from zenith.ir.types import (
    DTYPES,
    ArrayType,
    DType,
    bfloat16,
    complex64,
    complex128,
    dtype_of,
    float16,
    int8,
    int16,
    kind_of,
    uint8,
    uint16,
    uint64,
)

READ_ONE_TRIANGLE = ("cholesky", "eigh")  # what these say are derivatives within the Hermitian matrices
# Primitives that cannot run alone, and why.
WITHOUT_SAMPLES = {
    "input": "the interpreter takes it from the arguments",
    "constant": "the interpreter takes it from the graph",
    "weight": "the interpreter takes it from the graph",
    "token": "it carries no data",
    "empty": "its contents are not read; tests/plain/test_changing_sizes.py runs it",
    "debug_print": "it prints; tests/ir/test_interpret.py runs it",
    **dict.fromkeys(
        ("custom_jvp", "custom_vjp", "checkpoint"), "it holds graphs; tests/transforms/test_custom.py runs it"
    ),
    "stop_gradient": "its derivative is not that of what it computes; tests/transforms/test_custom.py runs it",
    **dict.fromkeys(("call_python", "call_native"), "it holds a function from outside; tests/outside runs it"),
    "call_python_in_order": "it holds a function from outside; tests/torch/test_dynamo.py runs it",
    "scan": "it holds a graph; tests/ir/test_control.py runs it",
    "while_loop": "it holds graphs; tests/ir/test_control.py runs it",
    "sized": "it holds a graph; tests/ir/test_control.py runs it",
    "switch": "it holds graphs; tests/ir/test_control.py runs it",
    "fused": "it is made by the fusion pass from a graph",
}

# Types of one group follow the same rules: where a case costs a compilation, `make test` takes one of each group in
# turn for each primitive, and `make fuzz` all.
ALIKE = (int8, int16, uint8, uint16, uint64)
GROUPS = (ALIKE, (float16, bfloat16), (complex64, complex128))

SUPPORTED = [(p, t) for p in all_primitives() for t in DTYPES if list(p.samples(t.numpy))]


def in_turn(number: int, dtype: DType) -> bool:
    """Whether case ``number`` of a series takes an element type: one of each group, and all others."""
    return all(dtype not in group or dtype is group[number % len(group)] for group in GROUPS)


def named(pairs: Sequence[tuple[Primitive, DType]]) -> list[Any]:
    """Parameters of a test, named after primitive and element type."""
    return [pytest.param(p, t, id=f"{p.name}-{t}") for p, t in pairs]


def with_rule(rule: str) -> list[tuple[Primitive, DType]]:
    """The supported pairs whose primitive has the rule."""
    return [(p, t) for p, t in SUPPORTED if not isinstance(getattr(p, rule), NoRule)]


def type_of(array: Any, symbolic: bool = False) -> ArrayType:
    """The type of an array; ``symbolic`` makes every size above 1 a symbol, one for each number."""
    dtype = dtype_of(np.asarray(array).dtype)
    assert dtype is not None
    return ArrayType(dtype, [size_of(n, symbolic) for n in np.shape(array)])


def size_of(n: int, symbolic: bool) -> DimLike:
    """A number, or its symbol."""
    return symbol(f"s{n}") if symbolic and n > 1 else n


def start(sample: Sample, symbolic: bool = False) -> tuple[Builder, list[Value], list[Any]]:
    """A new graph with an input for every argument of a sample, and the arguments."""
    graph = Graph("case")
    arrays = [np.asarray(v) for v in sample.values]
    inputs = [graph.add_input(type_of(a, symbolic), f"x{i}") for i, a in enumerate(arrays)]
    return Builder(graph), inputs, arrays


def apply(builder: Builder, primitive: Primitive, args: Sequence[Value], params: Any) -> tuple[Value, ...]:
    """The primitive's results, always as a tuple."""
    return builder.graph.add(primitive, args, params)


def same(a: Any, b: Any) -> bool:
    """Whether two arrays have one dtype, shape and the same elements; nan equals nan."""
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a, b, equal_nan=kind_of(a.dtype) in ("f", "c"))
