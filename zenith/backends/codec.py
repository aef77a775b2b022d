"""The codec: trees of records as JSON, and back.

A tree is of tuples, lists, dicts, frozen sets, named tuples, scalars and *records*: dataclasses that :func:`record` has
made known, by their fields. Leaves that are large, arrays, bytes and texts, are not in the JSON: a function that stores
one, given with a name, the last key or field on the way to it, says what refers to it. Nothing is unpickled: JSON names
records, and named tuples of modules that this process has imported.

>>> spelled = encode({"w": (1, 2.5), 3: Leaf(0)})
>>> spelled
{'dict': [['w', [1, 2.5]], [3, {'Leaf': [0, False]}]]}
>>> decode(spelled, dict)
{'w': (1, 2.5), 3: Leaf(number=0, is_size=False)}
"""

from __future__ import annotations

import ast
import collections
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any, NamedTuple, TypeVar

import numpy as np

from zenith.errors import SourceLine, UnsupportedError
from zenith.ir import dims
from zenith.ir.numerics import Numerics
from zenith.ir.types import BY_NAME, ArrayType, DType, NDArray
from zenith.tree import Leaf

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
Kind = TypeVar("Kind", bound=type)
Tree = TypeVar("Tree")


class StoredText(str):
    """A text that is stored as a leaf: in a folder it has a file of its own."""

    __slots__ = ()


Large = NDArray | bytes | StoredText
Put = Callable[[Large, str], Json]  # stores a leaf under a name, and says what refers to it
Get = Callable[[str, Json], Large]  # the leaf of a kind ("array", "bytes" or "text") that is referred to

_LEAVES = {np.ndarray: "array", bytes: "bytes", StoredText: "text"}
_PLAIN = (str, int, float, bool, type(None))  # also the types of a dict's keys
_NESTED = (list, dict)  # what JSON has besides


class _Record(NamedTuple):
    """How a class is stored: its parts with names, their inverse, and whether equal objects are spelled ``once``."""

    kind: type
    parts: Callable[[Any], Iterable[tuple[str, object]]]
    make: Callable[..., object]
    once: bool


_RECORDS: dict[str, _Record] = {}


def record(kind: Kind, once: bool = False) -> Kind:
    """Have objects of a dataclass stored by their fields; equal ones ``once`` in a tree."""
    names = [field.name for field in fields(kind)]
    stored_as(kind, lambda value: [(name, getattr(value, name)) for name in names], kind, once)
    return kind


def stored_as(
    kind: type, parts: Callable[[Any], Iterable[tuple[str, object]]], make: Callable[..., object], once: bool = False
) -> None:
    """Have objects of a class stored as some parts with names, of which ``make`` makes an equal object.

    Files name the class without its module: raises ValueError where another one of this name is stored already.
    """
    known = _RECORDS.get(kind.__name__)
    if known is not None and (known.kind.__module__, known.kind.__qualname__) != (kind.__module__, kind.__qualname__):
        raise ValueError(f"{known.kind} and {kind} have the same name in files")
    _RECORDS[kind.__name__] = _Record(kind, parts, make, once)


def encode(tree: object, put: Put | None = None) -> Json:
    """A tree as JSON's own types, its leaves stored by ``put``; UnsupportedError for what a file cannot hold."""
    return _Encoder(put).spelled(tree, "")


def decode(spelled: Json, kind: type[Tree], get: Get | None = None) -> Tree:
    """The tree, an object of the type ``kind``, that was encoded; any error of Python's where none was."""
    tree = _Decoder(get).read(spelled)
    if not isinstance(tree, kind):
        raise TypeError(f"a file holds a {type(tree).__name__} in place of a {kind.__name__}")
    return tree


class _Encoder:
    """Spells one tree. What is spelled once is referred to by its number from then on."""

    def __init__(self, put: Put | None) -> None:
        self._put = put
        self._numbers: dict[object, int] = {}

    def spelled(self, value: Any, name: str) -> Json:
        kind = type(value)
        if kind in _PLAIN:
            plain: Json = value
            return plain
        if kind is tuple:
            return self._items(value, name)
        known = _RECORDS.get(kind.__name__)
        if known is not None and known.kind is kind:
            return self._record(value, known)
        if kind in _LEAVES and self._put is not None:
            return {_LEAVES[kind]: self._put(value, name)}
        if kind is list:
            return {"list": self._items(value, name)}
        if kind is frozenset:
            return {"frozenset": self._items(sorted(value), name)}
        if kind is dict and all(type(key) in _PLAIN for key in value):
            return {"dict": [[key, self.spelled(item, str(key))] for key, item in value.items()]}
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {"named": [kind.__module__, kind.__qualname__, list(kind._fields), self._items(value, name)]}
        raise UnsupportedError(
            f"a file cannot hold a {kind.__name__}" + (" with such keys" if kind is dict else ""),
            fix="take and return arrays in tuples, lists, named tuples, and dicts whose keys are str or numbers",
        )

    def _items(self, values: Iterable[object], name: str) -> list[Json]:
        return [self.spelled(item, name) for item in values]

    def _record(self, value: Any, known: _Record) -> Json:
        if known.once and value in self._numbers:
            return {"ref": self._numbers[value]}
        spelled: Json = {known.kind.__name__: [self.spelled(part, name) for name, part in known.parts(value)]}
        if known.once:
            self._numbers[value] = len(self._numbers)
        return spelled


class _Decoder:
    """The inverse of :class:`_Encoder`."""

    def __init__(self, get: Get | None) -> None:
        self._get = get
        self._known: list[object] = []

    def read(self, spelled: Any) -> Any:
        if type(spelled) is list:
            return tuple([self.read(item) if type(item) in _NESTED else item for item in spelled])
        if type(spelled) is not dict:
            return spelled
        ((tag, inner),) = spelled.items()
        if tag == "ref":
            return self._known[inner]
        known = _RECORDS.get(tag)
        if known is None:
            return self._other(tag, inner)
        made = known.make(*[self.read(item) if type(item) in _NESTED else item for item in inner])
        if known.once:
            self._known.append(made)
        return made

    def _other(self, tag: str, inner: Any) -> Any:
        match tag:
            case "list":
                return list(map(self.read, inner))
            case "frozenset":
                return frozenset(map(self.read, inner))
            case "dict":
                return {key: self.read(item) if type(item) in _NESTED else item for key, item in inner}
            case "named":
                module, name, names, items = inner
                return _named_tuple(module, name, names)(*map(self.read, items))
            case "array" | "bytes" | "text" if self._get is not None:
                return self._get(tag, inner)
        raise ValueError(f"a file holds no {tag!r}")


def _named_tuple(module: str, name: str, names: list[str]) -> Any:
    """The class of this process, or one like it where there is none."""
    found: Any = sys.modules.get(module)
    for attribute in name.split("."):
        found = getattr(found, attribute, None)
    fitting = isinstance(found, type) and issubclass(found, tuple) and list(getattr(found, "_fields", ())) == names
    return found if fitting else collections.namedtuple(name.rpartition(".")[2], names)


def _size(text: str) -> dims.Dim:
    return dims.dim(int(text)) if text.isdecimal() else dims.parse(ast.parse(text, mode="eval").body)


record(Leaf)
record(Numerics)
stored_as(complex, lambda number: [("real", number.real), ("imag", number.imag)], complex)
stored_as(DType, lambda dtype: [("name", dtype.name)], BY_NAME.__getitem__)
stored_as(
    ArrayType,
    lambda type: [("dtype", type.dtype.name), ("shape", tuple(map(str, type.shape)))],
    lambda dtype, shape: ArrayType(BY_NAME[dtype], map(_size, shape)),
    once=True,
)
record(SourceLine, once=True)
