"""Structures of calls and results, as a program stores them and as a file describes them.

A call that is more than positional arrays and numbers has a *form*: how its leaves are nested, and the values that the
program was made for. A result is flat until it is *built*. Neither names code, so that a file
(:mod:`zenith.api.saving`) brings them back where the function's own module is not there.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any

import numpy as np

from zenith import tree
from zenith.backends.codec import Json, encode
from zenith.errors import UnsupportedError

Finish = Callable[[list[Any]], object]

_PLAIN = frozenset({int, bool, str, type(None)})
_NAMES = frozenset({str})


class Form(ABC):
    """The structure of a call; hashable, since it is part of the call's key.

    ``dynamic`` are the paths of Python numbers in it that are inputs.
    """

    dynamic: tuple[str, ...] = ()

    @abstractmethod
    def text(self) -> str:
        """The form as text, the same for equal forms; UnsupportedError when a file cannot hold it."""

    @abstractmethod
    def nested(self) -> tuple[Sequence[object], dict[str, object]]:
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
    if kind in (range, Decimal):
        return kind, repr(value)
    if isinstance(value, np.generic):
        return kind, value.tobytes() if isinstance(value, np.void) else repr(value)
    parameters = getattr(kind, "__dataclass_params__", None)
    if parameters is not None and parameters.eq:
        compared = [f.name for f in fields(kind) if (f.compare if f.hash is None else f.hash)]
        keys = tuple(exactly(getattr(value, name)) for name in compared)
        return (kind, value, *keys) if _is_hashable(keys) else (kind, value)
    return kind, value


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def differing(*treedefs: tree.TreeDef) -> Hashable:
    """A key of what equal structures may differ in; names, of which there may be hundreds, are their own."""
    nodes = [node for treedef in treedefs for node in tree.differences(treedef)]
    found = tuple([node if _NAMES.issuperset(map(type, node)) else exactly(node) for node in nodes])
    if not _is_hashable(found):
        raise tree.no_key(treedefs[0])
    return found


def form_of(key: Any) -> Form | None:
    """The form of the calls with this key; None for those of positional arrays and numbers alone."""
    return key[0] if key and isinstance(key[0], Form) else None


@dataclass(frozen=True, slots=True)
class Result:
    """What a program returns: ``build`` makes the caller's structure from flat results, ``stored`` is it in a file.

    ``nested`` gives it with :class:`~zenith.tree.Leaf` in the place of results. ``numbers`` are the flat results that
    NumPy returns as scalars, and ``of_python`` those that are Python's own numbers (``len(x)``, ``n / 2``, ``x > 0 and
    ok``): a program with NumPy's results returns these, too; tensors stay tensors. ``converts`` says that ``build``
    makes arrays of another library of NumPy's.
    """

    build: Finish
    stored: Callable[[], object]
    nested: Callable[[], object]
    numbers: Sequence[int] = ()
    of_python: Sequence[int] = ()
    converts: bool = False

    @classmethod
    def of(cls, treedef: tree.TreeDef, numbers: Sequence[int] = (), of_python: Sequence[int] = ()) -> Result:
        """Results in a structure of tuples, lists and dicts; a lone array needs no building."""
        build = _only if treedef.is_leaf() else lambda results: tree.unflatten(treedef, results)

        def nested() -> object:
            return build([tree.Leaf(i) for i in range(treedef.num_leaves)])

        return cls(build, nested, nested, tuple(numbers), tuple(of_python))

    def build_with_numbers(self) -> Finish:
        """``build`` for NumPy's arrays, with numbers in place of some; programs without them pay nothing for it."""
        build, numbers, of_python = self.build, self.numbers, self.of_python
        if not numbers and not of_python:
            return build
        if build is _only:
            return _only_number if numbers else _only_of_python

        def finish(results: list[Any]) -> object:
            for number in numbers:
                results[number] = results[number][()]
            for number in of_python:
                results[number] = results[number].item()
            return build(results)

        return finish


def _only(results: list[object]) -> object:
    return results[0]


def _only_number(results: list[Any]) -> object:
    return results[0][()]


def _only_of_python(results: list[Any]) -> object:
    return results[0].item()


@dataclass(slots=True, unsafe_hash=True)  # not frozen, which takes twice as long to make, and every call makes one
class CallForm(Form):
    """A call's nested tuples, lists and dicts, and its static arguments: where, what equals them, and their values.

    Functions see what equal structures may differ in, such as the order of a dict's keys: ``differences`` has it, and
    ``named`` the order of all arguments given by name where some are static.
    """

    treedef: tree.TreeDef
    differences: Hashable
    named: tuple[str, ...]
    static: tuple[tuple[int | str, Hashable], ...]
    values: tuple[object, ...] = field(compare=False)

    def text(self) -> str:
        """The structure with the number of each leaf in its place, static values, and the order of names."""
        structure = tree.unflatten(self.treedef, map(tree.Leaf, range(self.treedef.num_leaves)))
        return json.dumps([encode(structure), [_spelled(*given) for given in self._given()], self.named])

    def nested(self) -> tuple[Sequence[object], dict[str, object]]:
        """The structure, with static values at their positions."""
        args, kwargs = tree.unflatten(self.treedef, map(tree.Leaf, range(self.treedef.num_leaves)))
        static = dict(self._given())
        kwargs = {**kwargs, **{name: value for name, value in static.items() if isinstance(name, str)}}
        ordered = {name: kwargs[name] for name in self.named} if self.named else kwargs
        return [static.get(number, value) for number, value in enumerate(args)], ordered

    def _given(self) -> list[tuple[int | str, object]]:
        return [(where, value) for (where, _), value in zip(self.static, self.values, strict=True)]


def _spelled(where: int | str, value: object) -> tuple[int | str, Json]:
    """A static argument: where it is, and its value as a file has it."""
    try:
        return where, encode(value, lambda leaf, _: repr(leaf))
    except UnsupportedError:
        fix = "give static arguments as numbers, str, None, or tuples of them"
        raise UnsupportedError(f"a file cannot hold the static argument {value!r}", fix=fix) from None


def mapped(value: object, leaf: Callable[[object], object]) -> Any:
    """Nested tuples, lists and dicts with other values in them: ``leaf`` of each; any class of dicts becomes dict."""
    if isinstance(value, dict):
        return {key: mapped(item, leaf) for key, item in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(item, leaf) for item in value))
    if isinstance(value, tuple | list):
        return (tuple if isinstance(value, tuple) else list)(mapped(item, leaf) for item in value)
    return leaf(value)
