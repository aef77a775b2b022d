"""Declared sizes: ``Dim`` names a size, says what is known of it, and ties axes of several arguments together.

>>> str(Dim("batch", min=1, multiple_of=8))
"Dim('batch', min=1, multiple_of=8)"
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from zenith.api.binding import SourceGuard
from zenith.errors import ArgumentError, ShapeError, ZenithError, user_line
from zenith.ir import dims
from zenith.ir.dims import symbol
from zenith.trace import InputSpec
from zenith.trace.numbers import SizeNeeded
from zenith.trace.plain_lists import PlainListsNeeded
from zenith.tree import as_read

T = TypeVar("T")


@dataclass(frozen=True)
class Dim:
    """A declared size. Equal names are one size.

    Parameters
    ----------
    name: an identifier; it appears in graphs, messages and kernels.
    min, max: the range, both ends included. A call outside raises ShapeError.
    multiple_of: a number that divides the size.
    """

    name: str
    min: int = 0
    max: int | None = None
    multiple_of: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", as_read(self.name))
        if not self.name.isidentifier():
            raise ShapeError(
                f"a size is named by an identifier, not {self.name!r}",
                fix="name it with letters, digits and _, as 'batch'",
            )
        if self.min < 0 or self.multiple_of < 1 or (self.max is not None and self.max < self.min):
            raise ShapeError(f"no size is like {self}", fix="use min >= 0, max >= min and multiple_of >= 1")

    def __str__(self) -> str:
        words = [repr(self.name)]
        words += [f"min={self.min}"] if self.min else []
        words += [f"max={self.max}"] if self.max is not None else []
        words += [f"multiple_of={self.multiple_of}"] if self.multiple_of > 1 else []
        return f"Dim({', '.join(words)})"

    def conditions(self) -> list[SourceGuard]:
        """The requirements of every call."""
        tests = [f"{self.name} >= {self.min}"] if self.min else []
        tests += [f"{self.name} <= {self.max}"] if self.max is not None else []
        tests += [f"{self.name} % {self.multiple_of} == 0"] if self.multiple_of > 1 else []
        return [SourceGuard(test, True, f"declared as {self}") for test in tests]


Declared = Mapping[str, Sequence[Dim | int | None]]


def checked(given: object) -> Declared:
    """The ``dims`` given to :func:`zenith.jit`; ArgumentError when they are no mapping of names to sizes of axes."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise _wrong(f"dims is a {type(given).__name__}, no dict")
    found = {}
    for name, sizes in given.items():
        if not isinstance(name, str) or isinstance(sizes, str) or not isinstance(sizes, Sequence):
            raise _wrong(f"dims declares {name!r} as {sizes!r}, and takes a tuple of sizes for the name of an argument")
        found[as_read(name)] = tuple(_entry(name, axis, size) for axis, size in enumerate(sizes))
    return found


def _entry(name: str, axis: int, size: object) -> Dim | int | None:
    """One declaration; a Dim for a name."""
    if size is None or isinstance(size, Dim):
        return size
    if isinstance(size, str) and as_read(size).isidentifier():
        return Dim(size)
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool) and size >= 0:
        return int(size)
    raise _wrong(f"axis {axis} of {name} is declared as {size!r}, which is no size")


def _wrong(what: str) -> ArgumentError:
    fix = 'give each axis a Dim, an identifier, an int or None, as in dims={"x": ("batch", 3, None)}'
    return ArgumentError(what, where=user_line(), fix=fix)


def declare(
    specs: Sequence[InputSpec], declared: Declared, abstract: bool = False
) -> tuple[list[InputSpec], list[SourceGuard]]:
    """Inputs with the sizes that ``declared`` gives by input name: a Dim, an int, or None for a free axis.

    Raises ShapeError when an input of that name does not exist, has another rank, or another size than a number that is
    declared, unless the call is ``abstract``: made of shapes, where some sizes are examples.
    """
    known = {spec.name: spec for spec in specs}
    for name, entries in declared.items():
        if name not in known or len(entries) != len(known[name].sizes):
            what = "is no argument" if name not in known else f"has {len(known[name].sizes)} axes, not {len(entries)}"
            raise ShapeError(f"dims declares {name}, which {what}", where=user_line(),
                             fix="the arguments are " + ", ".join(known))  # fmt: skip
    conditions: dict[SourceGuard, None] = {}
    result = []
    for spec in specs:
        sizes = []
        entries = declared.get(spec.name, [None] * len(spec.sizes))
        for axis, (size, declaration) in enumerate(zip(spec.sizes, entries, strict=True)):
            if isinstance(declaration, Dim):
                conditions.update(dict.fromkeys(declaration.conditions()))
            elif declaration is not None and not abstract and spec.hints[axis] != declaration:
                what = f"axis {axis} of {spec.name} is declared as {declaration} and has size {spec.hints[axis]} here"
                raise ShapeError(what, where=user_line(), fix="declare it as None, or pass an array of that size")
            sizes.append(_size(size, declaration))
        result.append(InputSpec(spec.name, spec.dtype, tuple(sizes), spec.hints, spec.weak))
    return result, list(conditions)


def _size(size: dims.Dim, declaration: Dim | int | None) -> dims.Dim:
    if declaration is None:
        return size
    return dims.symbol(declaration.name) if isinstance(declaration, Dim) else dims.dim(declaration)


def trace_as_asked(
    run: Callable[[Sequence[InputSpec], bool], T], specs: Sequence[InputSpec], leaves: Sequence[Any]
) -> T:
    """The trace that ``run(specs, grows_lists)`` makes, of arguments.

    Once more where a converted function uses integers as sizes, or a list as only Python's can be.
    """
    plain: PlainListsNeeded | None = None
    while True:
        try:
            return run(specs, plain is None)
        except SizeNeeded as needed:
            specs = _with_sizes(specs, leaves, needed.names)
        except PlainListsNeeded as needed:
            assert plain is None, "a trace whose lists are Python's asks for such ones"
            plain = needed
        except ZenithError as error:
            if plain is not None:
                plain.note(error)
            raise


def _with_sizes(specs: Sequence[InputSpec], leaves: Sequence[Any], names: Collection[str]) -> list[InputSpec]:
    """The specs of arguments, where the integers of these names are sizes."""
    known = {name for spec in specs for size in spec.sizes for name in size.symbols()}

    def named(name: str) -> str:
        return named(name + "_") if name in known else name

    return [
        replace(spec, size=symbol(named(f"size_{spec.name}")), number=int(leaf)) if spec.name in names else spec
        for spec, leaf in zip(specs, leaves, strict=True)
    ]
