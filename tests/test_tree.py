"""Pytrees: round trips, paths, names."""

from collections import OrderedDict, namedtuple

import optree
import pytest

from zenith import tree
from zenith.errors import TraceError

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("value", "leaves", "paths"),
    [
        (1, [1], [""]),
        ((1, [2, {"b": 3, "a": 4}]), [1, 2, 4, 3], ["[0]", "[1][0]", '[1][1]["a"]', '[1][1]["b"]']),
        (Point(1, (2,)), [1, 2], [".x", ".y[0]"]),
        (OrderedDict(b=1, a=2), [1, 2], ['["b"]', '["a"]']),
        ({0: 1, 1: None}, [1], ["[0]"]),
        ((), [], []),
    ],
)
def test_flatten_paths_and_back(value, leaves, paths):
    found, treedef = tree.flatten(value)
    assert found == leaves
    assert tree.paths(treedef) == paths
    restored = tree.unflatten(treedef, found)
    assert restored == value and type(restored) is type(value)


def test_a_structure_that_contains_itself_is_refused():
    loop = []
    loop.append(loop)
    shared = [1, 2]
    for value in (loop, [shared, {"a": (shared, {"b": [loop]})}]):
        with pytest.raises(TraceError, match="contains itself"):
            tree.flatten(value)


class Endless:
    """A node with another one inside, which each flattening makes."""


optree.register_pytree_node(Endless, lambda _: ((Endless(),), None), lambda _, inside: Endless(), namespace="zenith")


def test_nodes_that_make_others_without_end_are_refused():
    with pytest.raises(TraceError, match="contains itself"):
        tree.flatten(Endless())


def test_a_structure_that_is_nested_too_deeply_is_refused():
    deep = shared = [1]
    for _ in range(2000):
        deep = [deep, shared, shared, None]
    with pytest.raises(TraceError, match="nested too deeply: more than 1000 levels"):
        tree.flatten(deep)


def test_unflatten_needs_as_many_leaves():
    with pytest.raises(ValueError, match="leaves"):
        tree.unflatten(tree.flatten((1, 2))[1], [1])


@pytest.mark.parametrize(
    ("text", "name"),
    [('params["w"][0]', "params_w_0"), ("x", "x"), ("0", "_0"), ("<lambda>", "lambda_"), ("...", "_"), ("a.b", "a_b")],
)
def test_identifiers(text, name):
    assert tree.identifier(text) == name
    assert tree.identifier(text).isidentifier()


def test_unique_names():
    assert tree.unique(["x", "x", "x_", "y"], taken=["y"]) == ["x", "x_", "x__", "y_"]
