"""The public function of an ejected program: from the user's arguments to arrays and sizes, and back to a structure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from zenith.errors import UnsupportedError
from zenith.ir.types import DType
from zenith.tree import Leaf, identifier, unique

BUILTINS = frozenset({"max", "min", "range", "len", "int"})  # which generated functions use
_PLAIN = (bool, int, float, complex, str, type(None))


class LeafType(NamedTuple):
    """What a leaf of a call must be: its element type, its number of axes, and whether it is a number of Python's."""

    dtype: DType
    rank: int
    of_python: bool = False


@dataclass(frozen=True)
class Interface:
    """How a program is called.

    ``args``, ``kwargs`` and ``result`` are nested as the user nests them, with :class:`~zenith.tree.Leaf` for arrays
    and the value itself where the program was specialized for one. ``shapes`` are names for the axes of leaves,
    ``definitions`` Python expressions of these for further sizes, ``conditions`` such expressions with what they mean;
    the results ``numbers`` are NumPy's scalars, those ``of_python`` Python's numbers; ``sizes`` are names for the
    leaves that are sizes.
    """

    name: str
    doc: str
    parameters: Sequence[str]  # of positional arguments
    variadic: str  # what takes further ones; empty when there are none
    args: Sequence[Any]
    kwargs: dict[str, Any]
    result: Any
    leaves: Sequence[LeafType]
    shapes: Sequence[tuple[int, Sequence[str]]]
    conditions: Sequence[tuple[str, str, type[Exception]]]
    numbers: Sequence[int] = ()
    of_python: Sequence[int] = ()
    definitions: Sequence[tuple[str, str]] = ()
    sizes: Sequence[tuple[int, str]] = ()

    def counts_by_math(self) -> bool:
        """Whether some expression calls a function of Python's module ``math``."""
        return any(
            "math." in source for source in (*(c for c, *_ in self.conditions), *(s for _, s in self.definitions))
        )

    def head(self) -> str:
        """The function's parameters."""
        words = [*self.parameters, *([f"*{self.variadic}"] if self.variadic else [])]
        words += [] if self.variadic or not self.kwargs else ["*"]
        return ", ".join([*words, *self.kwargs])

    def arguments(self) -> Iterator[tuple[str, Any]]:
        """Each argument as Python source and its structure."""
        for number, value in enumerate(self.args):
            inside = f"{self.variadic}[{number - len(self.parameters)}]"
            yield (self.parameters[number] if number < len(self.parameters) else inside), value
        yield from self.kwargs.items()

    def check_names(self) -> None:
        """Raise UnsupportedError for a parameter that hides what generated functions use."""
        for name in {*self.parameters, self.variadic, *self.kwargs} & BUILTINS:
            raise UnsupportedError(f"{self.name} has a parameter {name}, which hides a builtin that a file needs",
                                   fix="give the parameter another name")  # fmt: skip


class Writer:
    """Writes the public function; ``inputs`` are the program's names of its arrays, ``helper`` gives the runtime's."""

    def __init__(self, interface: Interface, inputs: Sequence[str], helper: Any) -> None:
        interface.check_names()
        self.of, self.helper = interface, helper
        self.paths: dict[int, str] = {}
        self.values: list[str] = []
        self.checks = [line for path, value in interface.arguments() for line in self._checks(path, value)]
        if interface.variadic:
            further = len(interface.args) - len(interface.parameters)
            self.checks[:0] = [self._structure(interface.variadic, "tuple", range(further))]
        names = [self.paths[n] if self.paths[n].isidentifier() else name for n, name in enumerate(inputs)]
        others = {*interface.parameters, interface.variadic, *interface.kwargs} - set(self.paths.values())
        self.variables = unique(names, taken=others)
        self.classes: dict[str, str] = {}

    def arrays(self) -> Iterator[str]:
        """Lines that check arguments, bind their arrays and sizes, and check the conditions on these."""
        yield from self.checks
        for number, (dtype, rank, of_python) in enumerate(self.of.leaves):
            path = self.paths[number]
            words = f"{path}, {path!r}, {dtype.numpy_name!r}, {rank}" + ", True" * of_python
            yield f"{self.variables[number]} = {self.helper('array')}({words})"
        for number, axes in self.of.shapes:
            yield f"{', '.join(axes)}{',' * (len(axes) == 1)} = {self.variables[number]}.shape"
        for number, name in self.of.sizes:
            yield f"{name} = int({self.variables[number]})"
        for name, source in self.of.definitions:
            text = f"a size is computed so: {source}"
            yield f"{name} = {source}"
            yield f"{self.helper('require')}(lambda: {name} >= 0, {text!r}, {name}={name})"
        known = {name for _, axes in self.of.shapes for name in axes} | {name for name, _ in self.of.definitions}
        known |= {name for _, name in self.of.sizes}
        for source, text, error in self.of.conditions:
            sizes = [f"{name}={name}" for name in dict.fromkeys(re.findall(r"\w+", source)) if name in known]
            given = [f"lambda: {source}", repr(text), *([] if error is ValueError else [error.__name__]), *sizes]
            yield f"{self.helper('require')}({', '.join(given)})"

    def accepts(self) -> str:
        """What the program takes, for its documentation."""
        axes = {number: ", ".join(names) for number, names in self.of.shapes}
        types = [f"{dtype}[{axes[i]}]" if i in axes else str(dtype) for i, (dtype, *_) in enumerate(self.of.leaves)]
        return ", ".join([*(f"{self.paths[i]}: {type}" for i, type in enumerate(types)), *self.values])

    def result(self, results: Sequence[str]) -> str:
        """What the function returns."""
        return self._spelled(self.of.result, results)

    def _checks(self, path: str, value: Any) -> Iterator[str]:
        if isinstance(value, Leaf):
            self.paths[value.number] = path
        elif type(value) in _PLAIN:
            self.values.append(f"{path}={value!r}")
            yield f"{self.helper('same')}({path}, {path!r}, {_literal(value)})"
        elif isinstance(value, dict):
            yield self._structure(path, "dict", value)
            for key, inner in value.items():
                yield from self._checks(f"{path}[{key!r}]", inner)
        elif isinstance(value, tuple | list):
            yield self._structure(path, "tuple" if isinstance(value, tuple) else "list", range(len(value)))
            for number, inner in enumerate(value):
                yield from self._checks(f"{path}[{number}]", inner)
        else:
            raise _unknown(value, "takes")

    def _structure(self, path: str, kind: str, keys: Any) -> str:
        return f"{self.helper('structure')}({path}, {path!r}, {kind}, {list(keys)!r})"

    def _taken(self, number: int) -> str:
        """How a result without axes is taken from its array."""
        if number in self.of.of_python:
            return ".item()"
        return "[()]" if number in self.of.numbers else ""

    def _spelled(self, value: Any, results: Sequence[str]) -> str:
        match value:
            case Leaf(number=number, is_size=is_size):
                result = results[number] + self._taken(number)
                return f"int({result})" if is_size else result
            case dict():
                items = ", ".join(f"{key!r}: {self._spelled(item, results)}" for key, item in value.items())
                return f"{{{items}}}"
            case list():
                return f"[{', '.join(self._spelled(item, results) for item in value)}]"
            case tuple():
                items = ", ".join(self._spelled(item, results) for item in value)
                return f"{self._class(value)}({items}{',' * (len(value) == 1 and type(value) is tuple)})"
        if type(value) in _PLAIN:
            return _literal(value)
        raise _unknown(value, "returns")

    def _class(self, value: Any) -> str:
        """The name of a named tuple's class, which the file defines; nothing for a plain tuple."""
        if type(value) is tuple:
            return ""
        name = identifier(type(value).__name__)
        self.classes[name] = f'{name} = namedtuple("{name}", {list(value._fields)!r})'
        return name


def _literal(value: Any) -> str:
    """A plain value as Python source."""
    return f'float("{value}")' if isinstance(value, float) and not math.isfinite(value) else repr(value)


def _unknown(value: Any, verb: str) -> UnsupportedError:
    return UnsupportedError(
        f"the program {verb} a {type(value).__name__}, a class that an ejected file has not",
        fix="take and return arrays in tuples, lists, named tuples and dicts",
    )
