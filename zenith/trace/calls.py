"""The call or index expression of the program that is running, where compiled code hides it.

NumPy's compiled functions leave no frame behind: when they ask a traced array for its slices or its values, or raise an
error, the innermost frame is that of the program itself. Its instruction has a position in the source, and the names
there are looked up as Python has just looked them up. Nothing is evaluated a second time; what cannot be found so is
unknown, as it is where there is no source.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import itertools
import linecache
import opcode
import sys
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np

from zenith.annotations import signature_of
from zenith.trace.dispatch import Traced

_LIBRARIES = ("numpy", "scipy", "torch")
_OWN = "zenith.trace."
_SIZES = ("shape", "size")
_STORES = [opcode.opmap[name] for name in ("STORE_SUBSCR", "STORE_SLICE") if name in opcode.opmap]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call or an index: its expression, the ``thing`` that is called or indexed (None where that is unknown), and
    what is known of what it is ``given``.

    For an instance of a class of NumPy's (``numpy.vectorize(f)(x)``) it is the class.
    """

    node: ast.Call | ast.Subscript
    thing: Any
    given: tuple[object, ...]

    @property
    def library(self) -> bool:
        """Whether what is used is NumPy's, SciPy's or PyTorch's own, and no array."""
        if self.thing is None or isinstance(self.thing, np.generic) or hasattr(self.thing, "__dlpack__"):
            return False
        owner = getattr(self.thing, "__module__", None) or type(self.thing).__module__
        return str(owner).split(".")[0] in _LIBRARIES

    @property
    def name(self) -> str:
        """The thing's full public name, without private modules: ``numpy.fft.fftfreq``."""
        thing = self.thing
        own = getattr(thing, "__name__", None)
        if own is None:
            written = ast.unparse(self.node.func if isinstance(self.node, ast.Call) else self.node.value)
            last = written.rpartition(".")[2]
            return f"numpy.{last}" if getattr(np, last, None) is thing else _public(type(thing).__module__, type(thing))
        if isinstance(thing, np.ufunc):
            return f"numpy.{own}" if getattr(np, own, None) is thing else own
        return _public(thing.__module__, thing)

    @property
    def unpacks(self) -> bool:
        """Whether arguments are unpacked (``f(*x)``) from a value that is not known to be a tuple or list."""
        if isinstance(self.node, ast.Subscript):
            return False
        stars = sum(isinstance(a, ast.Starred) for a in self.node.args)
        return stars > sum(isinstance(value, _Unpacked) for value in self.given)


def _public(module: str, thing: type | Callable[..., object]) -> str:
    """A full public name: the module up to its first private component, and the name."""
    public = itertools.takewhile(lambda word: not word.startswith("_"), module.split("."))
    return ".".join([*public, thing.__name__])


class _Unpacked(tuple[object, ...]):
    """Positional arguments that are in a tuple or list of the program's."""


def used(frame: FrameType | None, at: int | None = None) -> CallSite | None:
    """The use by an instruction of a frame (the one that runs, or that at an offset); None where that is unknown."""
    if frame is None:
        return None
    node = _expression(frame.f_code, frame.f_lasti if at is None else at)
    if node is None:
        return None
    names = ChainMap(frame.f_locals, frame.f_globals, vars(builtins))
    thing = _found(node.func if isinstance(node, ast.Call) else node.value, names)
    return CallSite(node, thing, tuple(_given(node, names)))


def asking() -> CallSite | None:
    """The program's innermost call or index, outside NumPy's own frames, when a traced value is asked for something."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and (in_library(frame) or frame.f_globals.get("__name__", "").startswith(_OWN)):
        frame = frame.f_back
    return used(frame)


def library_function() -> str:
    """The function of NumPy's or SciPy's that the program has called, by the frames on the stack; empty for none.

    For methods and operators, whose owner the program's line does not name: ``norm.pdf(x)``, ``s @ x``.
    """
    frame: FrameType | None = sys._getframe(1)
    found: FrameType | None = None
    while frame is not None and (in_library(frame) or frame.f_globals.get("__name__", "").startswith(_OWN)):
        found = frame if in_library(frame) else found
        frame = frame.f_back
    if found is None:
        return ""
    public = itertools.takewhile(lambda word: not word.startswith("_"), found.f_globals["__name__"].split("."))
    return ".".join([*public, getattr(found.f_code, "co_qualname", found.f_code.co_name)])


def in_library(frame: FrameType) -> bool:
    """Whether NumPy's or SciPy's Python runs in a frame."""
    return str(frame.f_globals.get("__name__", "")).split(".")[0] in _LIBRARIES


def writes_an_element(frame: FrameType | None) -> bool:
    """Whether a frame assigns to an indexed element."""
    return frame is not None and frame.f_lasti >= 0 and frame.f_code.co_code[frame.f_lasti] in _STORES


def arguments(thing: Any) -> str:
    """The names of a function's parameters; empty where it has no signature."""
    try:
        return ", ".join(signature_of(thing).parameters)
    except (TypeError, ValueError):
        return ""


def misfit(use: CallSite) -> str | None:
    """How the arguments of a call do not fit what is called; None where they may."""
    node = use.node
    if isinstance(node, ast.Subscript) or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    named = {keyword.arg: None for keyword in node.keywords}
    try:
        signature = signature_of(use.thing)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*node.args, **{name: value for name, value in named.items() if name is not None})
    except TypeError as error:
        return None if None in named else str(error)
    return None


@functools.lru_cache(maxsize=256)
def _expression(code: CodeType, at: int) -> ast.Call | ast.Subscript | None:
    """The call or index expression that an instruction was compiled from."""
    first, last, start, stop = next(itertools.islice(code.co_positions(), max(at, 0) // 2, None), (None,) * 4)
    if first is None or last is None or start is None or stop is None:
        return None
    lines = [line.encode() for line in linecache.getlines(code.co_filename)[first - 1 : last]]
    if len(lines) != last - first + 1:
        return None
    lines[-1] = lines[-1][:stop]
    lines[0] = lines[0][start:]
    try:
        node = ast.parse(f"({b''.join(lines).decode()}\n)", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return node if isinstance(node, (ast.Call, ast.Subscript)) else None


def _found(node: ast.expr, names: Mapping[str, object]) -> object:
    """The object of a dotted name; None for an expression that would have to be evaluated."""
    if isinstance(node, ast.Name):
        return names.get(node.id)
    if isinstance(node, ast.Attribute):
        owner = _found(node.value, names)
        found = inspect.getattr_static(owner, node.attr, None)
        stored = isinstance(owner, ModuleType) or node.attr in getattr(owner, "__dict__", {})
        return found if stored else None
    if isinstance(node, ast.Call):
        made = _found(node.func, names)
        return made if isinstance(made, type) else None
    return None


def _given(node: ast.Call | ast.Subscript, names: Mapping[str, object]) -> Iterator[object]:
    expressions = [*node.args, *(k.value for k in node.keywords)] if isinstance(node, ast.Call) else [node.slice]
    for expression in expressions:
        if isinstance(expression, ast.Starred):
            value = _found(expression.value, names)
            yield from (_Unpacked(value), *value) if isinstance(value, (tuple, list)) else (value,)
        else:
            yield from _values(expression, names)


def _values(node: ast.AST, names: Mapping[str, object]) -> Iterator[object]:
    """The objects of the names in an expression; of traced arrays the sizes, where it reads these."""
    if isinstance(node, ast.Attribute) and node.attr in _SIZES:
        owner = _found(node.value, names)
        if isinstance(owner, Traced):
            sizes = getattr(owner, node.attr)
            yield from sizes if isinstance(sizes, tuple) else (sizes,)
            return
    if isinstance(node, ast.Name):
        value = names.get(node.id)
        yield from value if isinstance(value, (tuple, list)) else (value,)
    for child in ast.iter_child_nodes(node):
        yield from _values(child, names)
