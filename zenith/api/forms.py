"""Structures of calls and results, as a program stores them and as a file describes them in JSON's own types.

A call that is more than positional arrays and numbers has a *form*: how its leaves are nested, and the values that the
program was made for. A result is flat until it is *built*. Both can be spelled without naming any code, so that a file
(:mod:`zenith.api.saving`) brings them back where the function's own module is not there.

>>> leaves, treedef = tree.flatten(({"w": 1.0, "b": 2.0}, None))
>>> spell(treedef)
{'tuple': [{'dict': [['w', 1], ['b', 0]]}, None]}
>>> read(spell(treedef)) == treedef
True
"""

from __future__ import annotations

import ast
import collections
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from zenith import tree
from zenith.backends.archive import Json
from zenith.errors import UnsupportedError

Finish = Callable[[list[Any]], Any]

_PLAIN = frozenset({int, bool, str, type(None)})
_KEYS = (str, int, float, bool, type(None))


class Form(ABC):
    """The structure of a call; hashable, since it is part of the call's key."""

    @abstractmethod
    def spelled(self) -> Json:
        """The form as JSON's own types; UnsupportedError when a file cannot hold it."""

    @abstractmethod
    def nested(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """Positional and keyword arguments with :class:`~zenith.tree.Leaf` in the place of arrays, and other values."""


def exactly(value: Any) -> Hashable:
    """A key that is equal only for interchangeable values, unlike those of 1, True and 1.0, or of 0.0 and -0.0.

    Looks into tuples, frozen sets, and the fields of dataclasses where these can be hashed. That of NaN equals itself.

    >>> exactly((1, 0.0)) == exactly((1.0, 0.0)), exactly(0.0) == exactly(-0.0)
    (False, False)
    >>> exactly(float("nan")) == exactly(float("nan"))
    True
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is float:
        return kind, value.hex()
    if kind is complex:
        return kind, value.real.hex(), value.imag.hex()
    if isinstance(value, tuple):
        return kind, *map(exactly, value)
    if isinstance(value, frozenset):
        return kind, frozenset(map(exactly, value))
    if isinstance(value, np.generic):
        return kind, value.tobytes() if isinstance(value, np.void) else repr(value)
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.eq:
        compared = [f.name for f in fields(kind) if (f.compare if f.hash is None else f.hash)]
        keys = tuple(exactly(getattr(value, name)) for name in compared)
        return (kind, value, *keys) if _is_hashable(keys) else (kind, value)
    return kind, value


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def form_of(key: Any) -> Form | None:
    """The form of the calls with this key; None for those of positional arrays and numbers alone."""
    return key[0] if key and isinstance(key[0], Form) else None


@dataclass(frozen=True, slots=True)
class Result:
    """What a program returns: ``build`` makes the caller's structure from flat results, ``spelled`` describes it.

    ``nested`` gives it with :class:`~zenith.tree.Leaf` in the place of results. ``numbers`` are the flat results that
    NumPy returns as scalars: a program with NumPy's results returns these, too; tensors stay tensors.
    """

    build: Finish
    spelled: Callable[[], Json]
    nested: Callable[[], Any]
    numbers: Sequence[int] = ()

    @classmethod
    def of(cls, treedef: tree.TreeDef, numbers: Sequence[int] = ()) -> Result:
        """Results in a structure of tuples, lists and dicts; a lone array needs no building."""
        build = _only if treedef.is_leaf() else lambda results: tree.unflatten(treedef, results)

        def nested() -> Any:
            return build([tree.Leaf(i) for i in range(treedef.num_leaves)])

        return cls(build, lambda: spell(treedef), nested, tuple(numbers))

    def build_with_numbers(self) -> Finish:
        """``build`` for NumPy's arrays, with scalars for ``numbers``; programs without them pay nothing for it."""
        build, numbers = self.build, self.numbers
        if not numbers:
            return build
        if build is _only:
            return _only_number

        def finish(results: list[Any]) -> Any:
            for number in numbers:
                results[number] = results[number][()]
            return build(results)

        return finish


def _only(results: list[Any]) -> Any:
    return results[0]


def _only_number(results: list[Any]) -> Any:
    return results[0][()]


@dataclass(slots=True, unsafe_hash=True)  # not frozen, which takes twice as long to make, and every call makes one
class CallForm(Form):
    """A call's nested tuples, lists and dicts, and its static arguments: where, what equals them, and their values.

    Functions see the order of a dict's keys, in which equal structures may differ: ``orders`` has it, and ``named`` the
    order of all arguments given by name where some are static.
    """

    treedef: tree.TreeDef
    orders: tuple[tuple[Any, ...], ...]
    named: tuple[str, ...]
    static: tuple[tuple[int | str, Hashable], ...]
    values: tuple[Any, ...] = field(compare=False)

    def spelled(self) -> Json:
        """The structure, and the static values as Python literals; the same for equal forms."""
        return {
            "tree": spell(self.treedef),
            "static": [[where, _literal(value)] for where, value in self._given()],
            "named": list(self.named),
        }

    def nested(self) -> tuple[Sequence[Any], dict[str, Any]]:
        """The structure, with static values at their positions."""
        args, kwargs = tree.unflatten(self.treedef, map(tree.Leaf, range(self.treedef.num_leaves)))
        static = dict(self._given())
        kwargs = {**kwargs, **{name: value for name, value in static.items() if isinstance(name, str)}}
        ordered = {name: kwargs[name] for name in self.named} if self.named else kwargs
        return [static.get(number, value) for number, value in enumerate(args)], ordered

    def _given(self) -> list[tuple[int | str, Any]]:
        return [(where, value) for (where, _), value in zip(self.static, self.values, strict=True)]


def _literal(value: Any) -> str:
    text = repr(value)
    try:
        plain = type(value) in (*_KEYS, tuple) and ast.literal_eval(text) == value
    except (ValueError, SyntaxError):
        plain = False
    if not plain:
        raise UnsupportedError(f"a file cannot hold the static argument {text}",
                               fix="give static arguments as numbers, str, None, or tuples of them")  # fmt: skip
    return text


def spell(treedef: tree.TreeDef) -> Json:
    """A structure, with the number of each leaf in its place."""
    return _spell(tree.unflatten(treedef, range(treedef.num_leaves)))


def _spell(node: Any) -> Json:
    kind = type(node)
    if node is None or kind is int:
        return node
    if kind in (tuple, list):
        return {kind.__name__: [_spell(item) for item in node]}
    if kind is dict and all(type(key) in _KEYS for key in node):
        return {"dict": [[key, _spell(value)] for key, value in node.items()]}
    if isinstance(node, tuple) and hasattr(kind, "_fields"):
        name = [kind.__module__, kind.__qualname__, list(kind._fields)]
        return {"named": name, "of": [_spell(item) for item in node]}
    raise UnsupportedError(
        f"a file cannot hold a {kind.__name__}" + (" with such keys" if kind is dict else ""),
        fix="take and return arrays in tuples, lists, named tuples, and dicts whose keys are str or numbers",
    )


def spell_nested(value: Any) -> Json:
    """A structure that holds :class:`~zenith.tree.Leaf` and plain values, in JSON's own types.

    A class that is a dict, such as transformers' results, is spelled as one.
    """
    match value:
        case tree.Leaf(number=number, is_size=is_size):
            return {"leaf": [number, is_size]}
        case dict() if all(type(key) in _KEYS for key in value):
            return {"dict": [[key, spell_nested(item)] for key, item in value.items()]}
        case list() | tuple() if not hasattr(value, "_fields"):
            return {type(value).__name__: [spell_nested(item) for item in value]}
        case tuple():
            kind: Any = type(value)
            name = [kind.__module__, kind.__qualname__, list(kind._fields)]
            return {"named": name, "of": [spell_nested(item) for item in value]}
    if type(value) not in _KEYS:
        raise UnsupportedError(f"a file cannot hold a {type(value).__name__}", fix="take and return plain structures")
    return {"plain": value}


def read_nested(spelled: Json) -> Any:
    """The structure that was spelled."""
    match spelled:
        case {"leaf": [number, is_size]}:
            return tree.Leaf(number, is_size)
        case {"plain": value}:
            return value
        case {"named": [module, name, fields], "of": items}:
            return _named_tuple(module, name, fields)(*map(read_nested, items))
        case {"tuple": items}:
            return tuple(map(read_nested, items))
        case {"list": items}:
            return list(map(read_nested, items))
    return {key: read_nested(value) for key, value in spelled["dict"]}


def without_numbers(spelled: Json) -> tuple[str, list[int]]:
    """Spelled arguments and keywords as text that is the same for calls of one form, and their leaves' numbers."""
    numbers: list[int] = []

    def visit(node: Json) -> Json:
        match node:
            case {"leaf": [number, _]}:
                numbers.append(number)
                return "leaf"
            case dict():
                return {name: visit(value) for name, value in node.items()}
            case list():
                return [visit(item) for item in node]
        return node

    args, kwargs = spelled["list"]
    in_order = {"dict": sorted(kwargs["dict"], key=lambda entry: str(entry[0]))}  # calls name arguments in any order
    return json.dumps(visit({"list": [args, in_order]})), numbers


def read(spelled: Json) -> tree.TreeDef:
    """The structure that was spelled. A named tuple's class is the one of this process, or made when there is none."""
    return tree.flatten(_read(spelled))[1]


def _read(spelled: Json) -> Any:
    if not isinstance(spelled, dict):
        return spelled
    match spelled:
        case {"tuple": items}:
            return tuple(map(_read, items))
        case {"list": items}:
            return list(map(_read, items))
        case {"named": [module, name, fields], "of": items}:
            return _named_tuple(module, name, fields)(*map(_read, items))
    return {key: _read(value) for key, value in spelled["dict"]}


def _named_tuple(module: str, name: str, fields: list[str]) -> Any:
    found: Any = sys.modules.get(module)
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    fitting = isinstance(found, type) and list(getattr(found, "_fields", ())) == fields
    return found if fitting else collections.namedtuple(name.rpartition(".")[2], fields)
