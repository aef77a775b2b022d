"""Programs that may reuse the memory of their inputs give the same bits, in less memory."""

import numpy as np
import pytest

from tests.programs import random_program
from tests.sampling import leave
from zenith.arrays import NUMPY
from zenith.compile import link_graph, lower_graph
from zenith.ir.interpret import bind_sizes
from zenith.ir.text import parse

CHAIN = """def f(x: f32[n, n], y: f32[n, n]) -> (f32[n, n]):
    a = matmul(x, y)
    b = matmul(a, y)
    c = matmul(b, a)
    d = matmul(c, b)
    return (d,)
"""


def results(graph, args, reusable):
    lowered = lower_graph(graph, "cpu", reusable=reusable)
    given = [np.array(a) for a in args]
    found = link_graph(lowered).run(given, [NUMPY] * len(given), bind_sizes(graph, args, {}), NUMPY)
    return lowered.plan, found, given


@pytest.mark.parametrize("seed", leave(lambda seed: seed > 5, range(40)))
@pytest.mark.parametrize("stream", ["any", "storage"])
def test_same_bits(seed, stream):
    graph, args = random_program(seed, stream=stream)
    names = [str(graph.node(v.node).params["name"]) for v in graph.inputs]
    _, wanted, _ = results(graph, args, ())
    _, found, _ = results(graph, args, names)
    for one, other in zip(wanted, found, strict=True):
        assert (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())


def test_dead_inputs_are_memory_for_values():
    graph, args = parse(CHAIN), [np.eye(5, dtype=np.float32), np.full((5, 5), 0.5, np.float32)]
    plain, wanted, untouched = results(graph, args, ())
    plan, found, given = results(graph, args, ("x", "y"))
    assert np.array_equal(wanted[0], found[0])
    assert plan.arena.evaluate({"n": 100}) < plain.arena.evaluate({"n": 100})
    assert all(map(np.array_equal, untouched, args)) and not all(map(np.array_equal, given, args))


def test_other_inputs_are_left_alone():
    graph, args = parse(CHAIN), [np.eye(5, dtype=np.float32), np.full((5, 5), 0.5, np.float32)]
    _, _, given = results(graph, args, ("x",))
    assert np.array_equal(given[1], args[1])
