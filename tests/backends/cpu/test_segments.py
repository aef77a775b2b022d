"""Loops cut where conditions on their variable change: the same elements as NumPy's, for arrays of every small size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.running import call, check
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.lanes.executable import LanesExecutable
from zenith.backends.lower.pointwise.segments import STRETCH
from zenith.backends.planner import plan
from zenith.backends.weights import WeightTable
from zenith.ir.graph import Graph
from zenith.ir.text import parse

SIZES = (*range(1, 9), 33, STRETCH - 1, STRETCH, STRETCH + 1, 2 * STRETCH + 3)

PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "one shift": lambda x: np.roll(x, 5),
    "to and fro": lambda x: np.roll(x, 1) + np.roll(x, -1) - 2 * x,
    "far": lambda x: np.roll(x, 3) * np.roll(x, -2) + np.roll(x, 7),
    "joined to itself": lambda x: np.concatenate([x, x]),
    "three joined": lambda x: np.concatenate([x, -x[:1], np.exp(x), x[1:]]) * 2,
    "joined twice": lambda x: np.concatenate([np.concatenate([x, 2 * x]), x]) + np.concatenate([x, np.tile(x, 2)]),
    "border": lambda x: np.pad(x, (2, 3)) + 1,
    "copied ends": lambda x: np.pad(x, 2, mode="edge")[3:-1] + x,
    "mirrored": lambda x: np.pad(x, (1, 0), mode="symmetric")[1:] * x,
    "differences": lambda x: np.diff(x, prepend=0, append=1),
    "gradient": lambda x: np.gradient(np.concatenate([x, x])),
    "five": lambda x: np.concatenate([x, x, x, x, x]) * 2,
    "a triangle's row": lambda x: np.tril(np.outer(x[:7], x)) + np.roll(np.outer(x[:7], x), 1, axis=1),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_size(name: str, rng: np.random.Generator) -> None:
    compiled = zenith.jit(PROGRAMS[name])
    for size in SIZES:
        x = rng.standard_normal(size)
        np.testing.assert_allclose(compiled(x), PROGRAMS[name](x), rtol=1e-12, err_msg=f"{size} elements")


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16"])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rows(axis: int, dtype: str, rng: np.random.Generator) -> None:
    def program(x: Any) -> Any:
        turned = np.roll(x, 2, axis=axis), np.roll(x, -1, axis=axis)
        return np.pad(np.concatenate([x, *turned], axis=axis), 1)

    compiled = zenith.jit(program)
    for shape in ((3, 4, 5), (1, 2, 1), (2, 1, 3), (3, 5, 70), (2, 2, STRETCH + 2)):
        x = (rng.standard_normal(shape) * 9).astype(dtype)
        np.testing.assert_array_equal(compiled(x), program(x))


def test_empty_operands(rng: np.random.Generator) -> None:
    def program(x: Any, y: Any) -> Any:
        return np.concatenate([x, y, x]) + np.concatenate([y, x, x])

    compiled = zenith.jit(program)
    for n, m in ((0, 3), (3, 0), (0, 0), (2, 5)):
        x, y = rng.standard_normal(n), rng.standard_normal(m)
        np.testing.assert_array_equal(compiled(x, y), program(x, y))


def fused(body: str) -> Graph:
    """A program of one group, which is cut where its second operand begins."""
    inside = "\n".join(f"        {line}" for line in body.splitlines())
    return parse(f"""def f(x: f64[n], y: f64[m], s: bool) -> (f64[m + n]):
    def body0(p0: f64[n], p1: f64[m], p2: bool) -> (f64[m + n]):
{inside}
    v1 = fused(x, y, s, body=body0, anchor='loops')
    return (v1,)""")


WITHOUT_X = {
    "an element of an empty array": """v1 = literal(value=5.0, dtype=f64)
v2 = pad(p0, v1, low=(1,), high=(0,), interior=(0,))
v3 = slice(v2, start=(n,), stop=(n + 1,), step=(1,))
v4 = broadcast(v3, shape=(m + n,), axes=(0,))
v5 = concat(p0, p1, axis=0)
v6 = add(v5, v4)
return (v6,)""",
    "a check of an empty array": """v1 = broadcast(p2, shape=(n,), axes=())
v2 = error_if(p0, v1, why='no')
v3 = concat(v2, p1, axis=0)
return (v3,)""",
}  # fmt: skip


def executable_of(graph: Graph) -> LanesExecutable:
    """A graph of groups, which no pass changes."""
    return LanesExecutable(plan(graph, cpu_target()), TILE_FUNCTIONS, WeightTable.of(graph))


@pytest.mark.parametrize("name", WITHOUT_X)
def test_what_is_hoisted_out_of_a_segment_does_not_count_on_its_iterations(name: str) -> None:
    """All of an iteration's facts are true where there is one; the first segment has none here."""
    graph = fused(WITHOUT_X[name])
    kernels = executable_of(graph)
    for n, wrong in ((2, False), (0, False), (0, True)):
        args = np.arange(1.0, n + 1), np.arange(3.0), np.array(wrong)
        check(call(kernels, graph, args), graph, args, exact=True)


def test_thresholds_know_no_position_that_an_element_computes() -> None:
    """The first segment, which computes less of an element, binds it under another name than the trial."""
    graph = parse("""def f(x: f64[n], s: i64, y: f64[2]) -> (f64[n + 2]):
    def body0(p0: f64[n], p1: i64, p2: f64[2]) -> (f64[n + 2]):
        v1 = concat(p2, p0, axis=0)
        v2 = literal(value=5.0, dtype=f64)
        v3 = pad(p0, v2, low=(0,), high=(7,), interior=(0,))
        v4 = dynamic_slice(v3, p1, sizes=(n + 2,), batch=0)
        v5 = reverse(v4, axes=(0,))
        v6 = add(v1, v5)
        return (v6,)
    v1 = fused(x, s, y, body=body0, anchor='loops')
    return (v1,)""")
    kernels = executable_of(graph)
    for n, start in ((5, 0), (5, 2), (5, 6), (1, 3), (0, 1)):
        args = np.arange(1.0, n + 1), np.array(start), np.array([7.0, 8.0])
        check(call(kernels, graph, args), graph, args, exact=True)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, y: np.pad(mirrored_twice(np.outer(x, y)), ((1, 1), (0, 0))) * 2,
        lambda x, y: np.concatenate([x, y, mirrored_twice(x), y, x, y]),
    ],
    ids=["border", "joined"],
)
def test_what_is_taken_at_a_discarded_position_is_discarded(program: Callable[[Any, Any], Any]) -> None:
    compiled = zenith.jit(program)
    for n in (3, 0, 1):
        x, y = np.arange(1.0, n + 1), np.arange(3.0)
        np.testing.assert_array_equal(compiled(x, y), program(x, y))


def mirrored_twice(x: Any) -> Any:
    """The array, by positions that are checked."""
    backwards = np.arange(x.shape[0])[::-1]
    return np.take(np.take(x, backwards, axis=0), backwards, axis=0)


def test_segments_ask_nothing() -> None:
    compiled = zenith.jit(lambda x: np.roll(x, 5) + 1)
    compiled(np.ones(20))
    assert "where(" not in str(compiled.show("kernels")) and "4096" in str(compiled.show("kernels"))
