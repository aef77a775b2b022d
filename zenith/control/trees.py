"""Trees of traced values that enter and leave bodies: flattened, compared, with errors that name a leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zenith import tree
from zenith.errors import DTypeError, ShapeError, TraceError, ValueTypeError, user_line
from zenith.ir.graph import Value
from zenith.ir.primitive import Primitive
from zenith.ir.types import ArrayType
from zenith.numpy.operands import as_array, asked_recorder, convert, dims_of, element_type, result_dtype, strong
from zenith.numpy.promotion import promote
from zenith.numpy.typing import Array
from zenith.trace.bind import array_type, bind, graph_value, known_dtype
from zenith.trace.operators import is_weak
from zenith.trace.recorder import current_recorder
from zenith.trace.results import own_memory
from zenith.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class TreeType:
    """The type of a tree of arrays: its leaves' types, which are weak (Python numbers), its structure and its name."""

    types: tuple[ArrayType, ...]
    weak: tuple[bool, ...]
    treedef: tree.TreeDef
    name: str

    @property
    def paths(self) -> list[str]:
        """The leaves' names in error texts: ``init["h"][0]``."""
        return [self.name + path for path in tree.paths(self.treedef)]

    def promoted(self, other: TreeType) -> TreeType:
        """This form, with numbers as arrays where those of ``other`` are arrays, of the element type by promotion."""
        types, weak = list(self.types), list(self.weak)
        for i, (own, met) in enumerate(zip(self.types, other.types, strict=True)):
            if weak[i] and not other.weak[i]:
                dtype = result_dtype(self.name, (_number(own), np.zeros((), met.dtype.numpy)))
                types[i], weak[i] = own.with_dtype(known_dtype(dtype)), False
        return replace(self, types=tuple(types), weak=tuple(weak))

    def __str__(self) -> str:
        return str(tree.unflatten(self.treedef, [_Word(t) for t in self.types]))


class _Word(str):
    """A text that prints without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _number(type: ArrayType) -> complex:
    return type.dtype.numpy.type(0).item()


@dataclass(frozen=True, slots=True)
class Leaves:
    """The leaves of a tree as arrays, and its form."""

    arrays: tuple[Any, ...]
    form: TreeType

    def converted(self, form: TreeType) -> Leaves:
        """The leaves with the element types of ``form``."""
        pairs = zip(self.arrays, form.types, strict=True)
        arrays = [a if element_type(a) == t.dtype else convert(strong(a), t.dtype.numpy) for a, t in pairs]
        return Leaves(tuple(arrays), form)


def flatten(name: str, value: object) -> Leaves:
    """The leaves of a user's tree as arrays."""
    leaves, treedef = tree.flatten(value)
    arrays = tuple(map(as_array, leaves))
    types = tuple(array_type(a).with_shape(dims_of(a)) for a in arrays)
    return Leaves(arrays, TreeType(types, tuple(map(is_weak, leaves)), treedef, name))


def unflatten(leaves: Sequence[Array], *forms: TreeType) -> list[Any]:
    """The trees whose leaves are concatenated in ``leaves``."""
    rest = iter(leaves)
    return [tree.unflatten(form.treedef, [next(rest) for _ in form.types]) for form in forms]


def record(primitive: Primitive, operands: Sequence[Any], /, **params: object) -> list[Array]:
    """Apply a primitive to arrays and captured values: recorded when a trace is in progress, else at once."""
    recorder = current_recorder()
    if recorder is None:
        results = bind(primitive, *operands, **params)
        return own_memory(results if isinstance(results, tuple) else [results], operands)
    values = [o if isinstance(o, Value) else graph_value(recorder, o) for o in operands]
    return [Tracer(recorder, v) for v in recorder.add(primitive, values, params)]


def rebuild(form: TreeType, results: Sequence[Array]) -> Any:
    """Results as a tree; numbers stay numbers."""
    for result, weak in zip(results, form.weak, strict=True):
        if weak and isinstance(result, Tracer):
            result.weak = True
    return tree.unflatten(form.treedef, results)


def require_functions(what: str, example: str, **given: object) -> None:
    """ValueTypeError for an argument that should be a function and is none, with an ``example`` of the call."""
    for name, value in given.items():
        if not callable(value):
            words = "a traced array" if isinstance(value, Tracer) else f"of type {type(value).__name__}"
            raise ValueTypeError(f"{what} takes functions, and {name} is {words}", where=user_line(),
                                 fix=f"write {example}")  # fmt: skip


def same_structure(what: str, found: TreeType, wanted: TreeType) -> None:
    """TraceError unless two trees have one structure."""
    if found.treedef != wanted.treedef:
        raise TraceError(
            f"{what}: {found.name} has another structure than {wanted.name}", where=user_line(),
            types=(found, wanted), fix=f"return a tree of the structure of {wanted.name}",
        )  # fmt: skip


def fit(what: str, found: Leaves, wanted: TreeType) -> list[Array]:
    """Leaves of a form: numbers take its element types; all else must agree.

    Raises DTypeError or ShapeError naming the leaf and both types.
    """
    pairs = zip(found.arrays, found.form.types, found.form.weak, wanted.types, strict=True)
    words = zip(found.form.paths, wanted.paths, strict=True)
    return [
        _fit_leaf(array, type, weak, needed, f"{what}: {path} is {type}, but {other} is {needed}")
        for (array, type, weak, needed), (path, other) in zip(pairs, words, strict=True)
    ]


def _fit_leaf(array: Array, found: ArrayType, weak: bool, wanted: ArrayType, message: str) -> Array:
    dtype = wanted.dtype.numpy
    if weak and found.dtype != wanted.dtype and promote((type(_number(found)), dtype)) == dtype:
        array, found = convert(strong(array), dtype), found.with_dtype(wanted.dtype)
    if found.dtype != wanted.dtype:
        fix = f"convert one of them: .astype(numpy.{found.dtype.numpy_name}) or .astype(numpy.{dtype})"
        raise DTypeError(message, where=user_line(), types=(found, wanted), fix=fix)
    recorder, sizes = asked_recorder(), list(zip(found.shape, wanted.shape, strict=False))
    if found.rank != wanted.rank or any(recorder.hint(a) != recorder.hint(b) for a, b in sizes):
        fix = "make the shapes equal, for instance with numpy.broadcast_to"
        raise ShapeError(message, where=user_line(), types=(found, wanted), fix=fix)
    for a, b in sizes:
        recorder.require(a, "==", b, message)
    return array
