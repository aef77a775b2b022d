"""Pytrees: nested tuples, lists, dicts, named tuples and ``None``, flattened to their leaves and built again.

A thin layer over optree. Every leaf has a *path* such as ``["layers"][0]``, from which errors and the names of graph
inputs are made. ``None`` is a node without leaves. Classes that optree's registry knows, globally or in the namespace
``"zenith"``, are nodes too.

>>> leaves, treedef = flatten({"w": 1, "b": (2, None)})
>>> leaves, paths(treedef)
([2, 1], ['["b"][0]', '["w"]'])
>>> unflatten(treedef, [20, 10])
{'w': 10, 'b': (20, None)}
"""

from __future__ import annotations

import keyword
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import optree

from zenith.errors import TraceError, user_line

__all__ = [
    "DEEPEST", "NAMESPACE", "Leaf", "Tree", "TreeDef", "as_read", "flatten", "identifier", "orders", "paths",
    "unflatten", "unique",
]  # fmt: skip

TreeDef = optree.PyTreeSpec
Tree: TypeAlias = object  # every object is one: a node whose class is registered, else a leaf
NAMESPACE = "zenith"
DEEPEST = 100_000  # levels of a structure beyond which nodes are taken to make new ones without end


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf of a structure that is inspected, not computed with, by its number; ``is_size`` if it becomes an int."""

    number: int
    is_size: bool = False


def flatten(tree: Any) -> tuple[list[Any], TreeDef]:
    """The leaves of ``tree`` in order, and its structure. Dicts are taken in the order of their sorted keys.

    Raises TraceError when the structure contains itself, is nested too deeply or a node's own flattening fails.
    """
    try:
        leaves, treedef, *_ = optree.tree_flatten(tree, namespace=NAMESPACE)
    except RecursionError:
        raise _endless(tree) from None
    return leaves, treedef


def _endless(tree: Tree) -> TraceError:
    """The error for a structure that optree follows no further."""
    try:
        endless = _contains_itself(tree)
    except RecursionError:  # of a node's own flattening
        endless = True
    if endless:
        return TraceError("a structure of arrays contains itself", where=user_line(), fix="pass a finite tree")
    return TraceError(
        f"a structure of arrays is nested too deeply: more than {optree.MAX_RECURSION_DEPTH} levels",
        where=user_line(), fix="pass its arrays in one list, or stack them",
    )  # fmt: skip


def _contains_itself(tree: Tree) -> bool:
    """Whether a node is its own descendant, or new nodes go on to level ``DEEPEST``."""
    above, finished = {id(tree): tree}, dict[int, object]()  # nodes are kept alive: their ids stay unique
    stack = [(tree, iter(_children(tree)))]
    while stack:
        node, rest = stack[-1]
        child = next(rest, finished)
        if child is finished:
            stack.pop()
            finished[id(node)] = above.pop(id(node))
        elif id(child) in above or len(stack) > DEEPEST:
            return True
        elif id(child) not in finished:
            above[id(child)] = child
            stack.append((child, iter(_children(child))))
    return False


def _children(node: Any) -> Iterable[object]:
    """The children of a node; none for a leaf."""
    if optree.tree_is_leaf(node, none_is_leaf=True, namespace=NAMESPACE):
        return ()
    return optree.tree_flatten_one_level(node, none_is_leaf=True, namespace=NAMESPACE).children


def unflatten(treedef: TreeDef, leaves: Iterable[object]) -> Any:
    """The tree of structure ``treedef`` with these leaves; ValueError when there are too few or too many."""
    return optree.tree_unflatten(treedef, leaves)


def paths(treedef: TreeDef) -> list[str]:
    """The path of every leaf as Python source to append to the tree's name: ``[0]["w"].bias``."""
    return ["".join(map(_step, accessor)) for accessor in treedef.accessors()]


def orders(treedef: TreeDef) -> tuple[tuple[object, ...], ...]:
    """The keys of every dict in ``treedef`` as they were inserted, where there is more than one.

    Structures whose dicts differ in nothing else are equal, and :func:`unflatten` gives each its own order back.

    >>> one, other = flatten({"w": 1, "b": 2})[1], flatten({"b": 2, "w": 1})[1]
    >>> one == other, orders(one), orders(other)
    (True, (('w', 'b'),), (('b', 'w'),))
    """
    nodes = _ordered(treedef)
    if not nodes:
        return ()
    state: Any = treedef.__getstate__()  # what optree pickles: nothing else has the order without building the tree
    return tuple([tuple(state[0][node][-1]) for node in nodes])


@lru_cache(maxsize=4096)
def _ordered(treedef: TreeDef) -> tuple[int, ...]:
    """The numbers of the nodes that are dicts with several keys; the same for equal structures."""
    state: Any = treedef.__getstate__()
    return tuple(number for number, (_, arity, *_, keys) in enumerate(state[0]) if keys is not None and arity > 1)


def _step(entry: optree.PyTreeEntry) -> str:
    if isinstance(entry, optree.GetAttrEntry):
        return f".{entry.name}"
    if isinstance(entry, optree.NamedTupleEntry):
        return f".{entry.field}"
    key = entry.entry
    return f'["{key}"]' if isinstance(key, str) else f"[{key!r}]"


def identifier(text: str) -> str:
    """A Python identifier that resembles ``text``: ``params["w"][0]`` becomes ``params_w_0``."""
    name = re.sub(r"\W+", "_", as_read(text)).strip("_")
    if keyword.iskeyword(name):
        return f"{name}_"
    return name if name and not name[0].isdigit() else f"_{name}"


def as_read(name: str) -> str:
    """A name as Python reads it in source: there are two signs for µ, and one of them is read as the other."""
    return unicodedata.normalize("NFKC", name)


def unique(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """The names with underscores appended where one came before, or is in ``taken``.

    >>> unique(["x", "x", "y"], taken=["y"])
    ['x', 'x_', 'y_']
    """
    used = set(taken)
    result = []
    for name in names:
        while name in used:
            name += "_"
        used.add(name)
        result.append(name)
    return result
