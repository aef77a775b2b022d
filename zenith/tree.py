"""Pytrees: nested tuples, lists, dicts, named tuples and ``None``, flattened to their leaves and built again.

A thin layer over optree. Every leaf has a *path* such as ``["layers"][0]``, from which errors and the names of graph
inputs are made. ``None`` is a node without leaves. Dataclasses and other classes are nodes once they are registered:
by :func:`register_dataclass`, or with optree, globally or in the namespace ``"zenith"``.

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
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import optree

from zenith.errors import ArgumentError, TraceError, user_line

__all__ = [
    "DEEPEST", "NAMESPACE", "Leaf", "Tree", "TreeDef", "as_read", "differences", "flatten", "how_to_register",
    "identifier", "is_leaf", "no_key", "paths", "register_dataclass", "register_node", "unflatten", "unique",
]  # fmt: skip

Class = TypeVar("Class", bound=type)
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


def is_leaf(value: Any) -> bool:
    """Whether a value is no node: neither a list or the like, nor of a class that is registered."""
    return optree.tree_is_leaf(value, none_is_leaf=True, namespace=NAMESPACE)


def _children(node: Any) -> Iterable[object]:
    """The children of a node; none for a leaf."""
    if is_leaf(node):
        return ()
    return optree.tree_flatten_one_level(node, none_is_leaf=True, namespace=NAMESPACE).children


def unflatten(treedef: TreeDef, leaves: Iterable[object]) -> Any:
    """The tree of structure ``treedef`` with these leaves; ValueError when there are too few or too many."""
    return optree.tree_unflatten(treedef, leaves)


def paths(treedef: TreeDef) -> list[str]:
    """The path of every leaf as Python source to append to the tree's name: ``[0]["w"].bias``."""
    return ["".join(map(_step, accessor)) for accessor in treedef.accessors()]


def differences(treedef: TreeDef) -> tuple[tuple[object, ...], ...]:
    """What equal structures may differ in: the order of a dict's keys, and keys and static fields such as 1 and True.

    Nodes in which they cannot differ are left out. :func:`unflatten` gives each structure its own back.

    >>> one, other = flatten({"w": 1, "b": 2})[1], flatten({"b": 2, "w": 1})[1]
    >>> one == other, differences(one), differences(other)
    (True, (('w', 'b'),), (('b', 'w'),))
    """
    try:
        nodes = _differing(treedef)
    except (TypeError, ValueError):
        raise no_key(treedef) from None
    if not nodes:
        return ()
    state: Any = treedef.__getstate__()  # what optree pickles: nothing else has the order without building the tree
    return tuple([_own(*state[0][node]) for node in nodes])


def no_key(treedef: TreeDef) -> TraceError:
    """The error for a node with data beside its children that cannot be hashed and compared."""
    return TraceError(f"the structure {treedef} has a node whose own data cannot be a key", where=user_line(),
                      fix="register its class with data that can be hashed, and arrays as children")  # fmt: skip


@lru_cache(maxsize=4096)
def _differing(treedef: TreeDef) -> tuple[int, ...]:
    """The numbers of the nodes in which equal structures may differ; the same for equal structures."""
    state: Any = treedef.__getstate__()
    return tuple(i for i, node in enumerate(state[0]) if _own(*node))


def _own(kind: int, arity: int, data: Any, entries: object, of: object, *sizes: Any) -> tuple[object, ...]:
    """A dict's keys in their order; of another node, what it has beside its children."""
    keys = sizes[-1]
    if keys is not None:
        return tuple(keys)
    if data is None or isinstance(data, type):  # the class of a named tuple
        return ()
    return tuple(data) if isinstance(data, (tuple, list)) else (data,)


def _step(entry: optree.PyTreeEntry) -> str:
    if isinstance(entry, optree.GetAttrEntry):
        return f".{entry.name}"
    if isinstance(entry, optree.NamedTupleEntry):
        return f".{entry.field}"
    key = entry.entry
    return f'["{key}"]' if isinstance(key, str) else f"[{key!r}]"


def register_node(
    nodetype: type, apart: Callable[..., tuple[Iterable[object], object]], together: Callable[..., object]
) -> None:
    """Make a class a node: ``apart`` gives its children and static data, of which ``together`` makes another one."""
    register: Callable[..., object] = optree.register_pytree_node
    register(nodetype, apart, together, namespace=NAMESPACE)


def register_dataclass(
    nodetype: Class,
    data_fields: Sequence[str] | None = None,
    meta_fields: Sequence[str] | None = None,
    drop_fields: Sequence[str] = (),
) -> Class:
    """Make a class a node of structures: an argument and a result of compiled functions, transforms and loops.

    The name and signature are JAX's. It returns the class, and so is a decorator.

    Parameters
    ----------
    nodetype: a dataclass, or a class whose constructor takes its attributes by name. Functions are given objects that
        the constructor has made of traced arrays.
    data_fields: the fields with arrays, numbers, or structures of them.
    meta_fields: static fields: a program is compiled for each of their values, which can be hashed.
    drop_fields: fields that are left out, and then have their defaults.

    Without lists, of a dataclass all fields are data that its constructor takes, but those declared with
    ``dataclasses.field(metadata={"static": True})``.

    Raises ArgumentError where the lists are missing for a class that is no dataclass, or are not its fields, each once,
    and for a class that is registered already.

    >>> import numpy as np, zenith
    >>> @register_dataclass
    ... @dataclass
    ... class Line:
    ...     slope: np.ndarray
    ...     offset: float
    >>> zenith.grad(lambda line: line.slope * 3 + line.offset)(Line(2.0, 1.0))
    Line(slope=np.float64(3.0), offset=np.float64(1.0))
    """
    if data_fields is None or meta_fields is None:
        data_fields, meta_fields = _declared(nodetype, data_fields, meta_fields, drop_fields)
    data, meta = tuple(data_fields), tuple(meta_fields)
    _check_fields(nodetype, (*data, *meta, *drop_fields), set(drop_fields))

    def apart(node: Any) -> tuple[tuple[object, ...], tuple[object, ...], tuple[str, ...]]:
        static = tuple([getattr(node, name) for name in meta])
        _check_hashable(nodetype, meta, static)
        return tuple([getattr(node, name) for name in data]), static, data

    def together(static: Any, children: Iterable[object]) -> Any:
        return nodetype(**dict(zip(meta, static, strict=True)), **dict(zip(data, children, strict=True)))

    try:
        optree.register_pytree_node(nodetype, apart, together, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)
    except ValueError:
        raise ArgumentError(f"{nodetype.__name__} is a node of structures already", where=user_line(),
                            fix="register each class once, where it is defined") from None  # fmt: skip
    return nodetype


def _declared(
    nodetype: type, data: Sequence[str] | None, meta: Sequence[str] | None, dropped: Sequence[str]
) -> tuple[Sequence[str], Sequence[str]]:
    """The fields of a dataclass that are data, and those that are static, by its own declarations."""
    if not is_dataclass(nodetype):
        raise ArgumentError(f"{nodetype.__name__} is no dataclass, whose fields say what they are", where=user_line(),
                            fix=f"name them: {_register(nodetype, full=True)}")  # fmt: skip
    if data is not None or meta is not None:
        raise ArgumentError("one of data_fields and meta_fields is missing", where=user_line(),
                            fix="give both, or none of them")  # fmt: skip
    taken = [f for f in fields(nodetype) if f.init and f.name not in dropped]
    static = [f.name for f in taken if f.metadata.get("static", False)]
    return [f.name for f in taken if f.name not in static], static


def _check_fields(nodetype: type, names: Sequence[str], dropped: set[str]) -> None:
    """ArgumentError unless each field that a constructor takes is named once, and those dropped have defaults."""
    what = ""
    if len(set(names)) < len(names):
        what = f"fields are named twice: {', '.join(n for n in dict.fromkeys(names) if names.count(n) > 1)}"
    elif is_dataclass(nodetype):
        own = {f.name: f for f in fields(nodetype) if f.init}
        without = [n for n in dropped & own.keys() if own[n].default is own[n].default_factory is MISSING]
        if wrong := (set(names) - dropped) ^ (own.keys() - dropped):
            what = (
                f"its constructor takes {', '.join(own)}, and these are named or left out: {', '.join(sorted(wrong))}"
            )
        elif without:
            what = f"fields without defaults are dropped: {', '.join(without)}"
    if what:
        raise ArgumentError(f"register_dataclass of {nodetype.__name__}: {what}", where=user_line(),
                            fix="name each field once, in data_fields or meta_fields")  # fmt: skip


def _check_hashable(nodetype: type, names: Sequence[str], values: Sequence[object]) -> None:
    try:
        hash(tuple(values))
    except TypeError as error:
        raise TraceError(
            f"a static field of {nodetype.__name__} cannot be a key ({', '.join(names)}): {error}", where=user_line(),
            fix="give it a value that can be hashed (a tuple for a list); fields with arrays are data_fields",
        ) from None  # fmt: skip


def how_to_register(value: object) -> str:
    """What a user writes who computes with an object of an unregistered class; empty for what has no fields."""
    kind = type(value)
    plain = isinstance(value, (type, Enum)) or callable(value) or hasattr(kind, "__array__")
    own = is_dataclass(kind) or (hasattr(value, "__dict__") and not plain)
    return f"register its class once: {_register(kind, full=not is_dataclass(kind))}" if own else ""


def _register(kind: type, full: bool) -> str:
    """A call of :func:`register_dataclass`."""
    lists = ", data_fields=[...], meta_fields=[...]" if full else ""
    return f"zenith.tree.register_dataclass({kind.__name__}{lists})"


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
