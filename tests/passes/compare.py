"""What the tests of passes share: programs as text before and after, and runs of both in the interpreter."""

import numpy as np

import zenith.ir.ops  # noqa: F401  fills the registry
from zenith.ir.interpret import interpret
from zenith.ir.text import parse
from zenith.ir.types import kind_of
from zenith.ir.verify import verify
from zenith.passes.cse import cse
from zenith.passes.dce import dce


def program(signature, body, constants=None):
    """The graph of ``def f(signature)`` with the lines of ``body``; result types are not written."""
    lines = [line.strip() for line in body.strip().splitlines()]
    return parse("\n    ".join([f"def f({signature}):", *lines]), constants)


def expect(transform, signature, before, after, constants=None):
    """Fail unless ``transform`` makes the second program of the first, up to dead code and repetition."""
    graph = program(signature, before, constants)
    text = str(graph)
    result = verify(transform(graph))
    assert str(graph) == text, "the pass changed its input"
    wanted = program(signature, after, constants)
    assert str(cse(dce(result))) == str(cse(dce(wanted)))
    return result


def random_arguments(graph, sizes, seed=0):
    """Arrays for a graph's inputs."""
    rng = np.random.default_rng(seed)
    out = []
    for value in graph.inputs:
        shape = [s.evaluate(sizes) for s in value.shape]
        out.append(np.asarray(rng.uniform(-3, 3, shape)).astype(value.dtype.numpy))
    return out


def assert_same_results(before, after, sizes, rtol=1e-5):
    """Both programs give equal integers and close floats."""
    args = random_arguments(before, sizes)
    for a, b in zip(interpret(before, *args, sizes=sizes), interpret(after, *args, sizes=sizes), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=rtol if kind_of(a.dtype) == "f" else 0, atol=1e-6)
