"""Passes that users write: they run on the traced graph, and what they break is an error that names them."""

from __future__ import annotations

import numpy as np
import pytest

import zenith
from zenith.errors import ValueTypeError, VerifyError, ZenithError
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.passes.rewrite import rebuild

X = np.linspace(-1, 1, 7)


def cosines(graph: Graph) -> Graph:
    """Sines become cosines."""

    def visit(b, node: Node, args: tuple[Value, ...]):
        return [b.cos(args[0])] if node.primitive is get("sin") else None

    return rebuild(graph, visit)


def doubled(graph: Graph) -> Graph:
    """Cosines are added to themselves."""

    def visit(b, node: Node, args: tuple[Value, ...]):
        if node.primitive is not get("cos"):
            return None
        found = b.cos(args[0])
        return [b.add(found, found)]

    return rebuild(graph, visit)


@pytest.mark.parametrize("backend", ["cpu", "lanes", "reference"])
def test_passes_run_in_their_order_and_are_seen(backend):
    compiled = zenith.jit(lambda x: np.sin(x) + 1, backend=backend, passes=[cosines, doubled])
    np.testing.assert_allclose(compiled(X), 2 * np.cos(X) + 1, rtol=1e-14)
    np.testing.assert_allclose(compiled(X[:3]), 2 * np.cos(X[:3]) + 1, rtol=1e-14)
    assert compiled.cache_info().misses == 1 and "= sin(" not in compiled.show("graph")


def test_the_cache_and_saved_files_have_what_passes_made(tmp_path):
    function = lambda x: np.sin(x)  # noqa: E731
    assert zenith.jit(function)(X)[0] == pytest.approx(np.sin(X[0]))
    compiled = zenith.jit(function, passes=[cosines])
    assert compiled(X)[0] == pytest.approx(np.cos(X[0]))
    compiled.save(tmp_path / "saved.zenith")
    assert zenith.load(tmp_path / "saved.zenith")(X).tobytes() == compiled(X).tobytes()


def test_derivatives_of_a_compiled_function_are_those_of_the_function():
    """Transforms trace the function itself, in which its passes do not run."""
    compiled = zenith.jit(lambda x: np.sum(np.sin(x)), passes=[cosines])
    np.testing.assert_allclose(zenith.grad(compiled)(X), np.cos(X), rtol=1e-12)
    np.testing.assert_allclose(zenith.jit(zenith.grad(lambda x: np.sum(np.sin(x))), passes=[doubled])(X), 2 * np.cos(X))


def _without_outputs(graph: Graph) -> Graph:
    new = cosines(graph)
    new = new.beginning(len(new))
    new.set_outputs(())
    return new


def _malformed(graph: Graph) -> Graph:
    new = graph.beginning(1)
    new.set_outputs([Value(9, 0, graph.outputs[0].type)])
    return new


def test_passes_may_be_any_iterable():
    compiled = zenith.jit(lambda x: np.sin(x), passes=(step for step in [cosines]))
    np.testing.assert_allclose(compiled(X), np.cos(X), rtol=1e-14)


def _in_place(graph: Graph) -> Graph:
    graph.set_outputs([graph.inputs[0], graph.inputs[0]])
    return graph


def _of_no_result(graph: Graph) -> Graph:
    new = graph.beginning(1)
    new.set_outputs([new.inputs[0]._replace(output=-1)])
    return new


@pytest.mark.parametrize(
    ("broken", "error", "message"),
    [
        (lambda graph: None, ValueTypeError, "returned a NoneType"),
        (_without_outputs, ValueTypeError, "_without_outputs changed the inputs or the types of the results"),
        (_in_place, ValueTypeError, "_in_place changed the inputs or the types"),
        (_of_no_result, VerifyError, "pass _of_no_result made a malformed graph"),
        (_malformed, VerifyError, "pass _malformed made a malformed graph"),
    ],
)
def test_what_a_pass_breaks_is_an_error_that_names_it(broken, error, message):
    with pytest.raises(error, match=message):
        zenith.jit(lambda x: np.sin(x), passes=[broken])(X)


@pytest.mark.parametrize("passes", [["dce"], cosines, None, [Graph]], ids=["text", "function", "none", "class"])
def test_what_is_no_list_of_functions_is_refused_at_once(passes):
    with pytest.raises(ValueTypeError, match="passes"):
        zenith.jit(lambda x: x, passes=passes)


def test_an_error_of_a_pass_is_the_users():
    def failing(graph):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine") as raised:
        zenith.jit(lambda x: x, passes=[failing])(X)
    assert not isinstance(raised.value, ZenithError)
