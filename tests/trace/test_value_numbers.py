"""Value numbering: what is computed alike has one number, in the sizes that are known to be equal."""

from __future__ import annotations

from zenith.ir.dims import symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.primitive import get
from zenith.ir.types import ArrayType, float32
from zenith.trace.value_numbers import ValueNumbers

N, M = symbol("n"), symbol("m")


def chain(graph: Graph, x: Value, steps: int, **params: object) -> Value:
    for _ in range(steps):
        (x,) = graph.add(get("neg"), (x,), {})
    return graph.add(get("broadcast"), (x,), params)[0]


def test_the_same_operations_of_the_same_operands() -> None:
    graph = Graph()
    x, y = (graph.add_input(ArrayType(float32, ()), name) for name in "xy")
    numbers = ValueNumbers(graph)
    one, two, longer = (chain(graph, x, steps, shape=(N,), axes=()) for steps in (3, 3, 4))
    assert one != two and numbers.are_equal(one, two, {})
    assert not numbers.are_equal(one, longer, {})
    assert not numbers.are_equal(one, chain(graph, y, 3, shape=(N,), axes=()), {})
    assert not numbers.are_equal(x, y, {}) and numbers.are_equal(y, y, {})


def test_sizes_are_equal_once_that_is_known() -> None:
    """And no longer when it is taken back, as it is where a function is traced on trial."""
    graph = Graph()
    x = graph.add_input(ArrayType(float32, ()), "x")
    numbers = ValueNumbers(graph)
    one, two = (chain(graph, x, 1, shape=(n,), axes=()) for n in (N, M))
    assert not numbers.are_equal(one, two, {})
    equal = {"m": N}
    assert numbers.are_equal(one, two, equal)
    equal.clear()
    assert not numbers.are_equal(one, two, equal)


def test_results_and_effects_are_apart() -> None:
    graph = Graph()
    x = graph.add_input(ArrayType(float32, (N,)), "x")
    numbers = ValueNumbers(graph)
    first, second = (graph.add(get("sort"), (x,), {"descending": False}) for _ in range(2))
    assert numbers.are_equal(first[0], second[0], {}) and not numbers.are_equal(first[0], second[1], {})
    count = graph.add(get("literal"), (), {"value": 1, "dtype": float32})[0]
    wrong = graph.add(get("lt"), (count, count), {})[0]
    one, two = (graph.add(get("error_if"), (count, wrong), {"why": "a"})[0] for _ in range(2))
    assert numbers.are_equal(one, two, {}) != get("error_if").effect
