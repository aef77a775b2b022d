"""Every error a user can meet, made by one constructor: what was wrong, where, with which types, and what to do.

An error class derives from :class:`ZenithError` and from the builtin that fits, so that ``except ValueError`` keeps
working; where Zenith cannot answer though NumPy would, no builtin fits. The message always has the same shape::

    cannot add f32[n, 3] and f32[n, 4]: sizes 3 and 4 differ
      at model.py:12 in step:  y = x + b
      fix: make the last axes equal, or 1
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Integral
from types import FrameType
from typing import Any

__all__ = [
    "ArgumentError", "AxisError", "CacheWarning", "CallError", "CheckError", "CompileError", "DTypeError", "DepthError",
    "DeviceError", "FallbackWarning", "LoadError", "MissingAttributeError", "NumberError", "OutOfBoundsError",
    "ParseError", "PerformanceWarning", "RecompilationError", "ShapeError", "SourceLine", "TraceError",
    "UnsupportedError", "ValueTypeError", "VerifyError", "ZenithError",
]  # fmt: skip

MODULE = "__zenith_module__"  # in the globals of a frame that stands for a line: the path of the module that ran it
_PACKAGE = os.path.dirname(os.path.realpath(__file__)) + os.sep
_FOREIGN = tuple(os.sep + name + os.sep for name in ("numpy", "scipy", "optree", "torch", "networkx"))


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the user's program. It travels from tracing to kernels and messages and is no part of equality.

    Its text goes into comments of kernels and graphs, and so is one line, whatever characters a file's name has.
    ``module`` is the path of the module that ran there, such as ``encoder.layer.0``, where a framework tells it; a line
    is the same in all of them.
    """

    file: str
    line: int
    function: str
    module: str = field(default="", compare=False)

    def __str__(self) -> str:
        return f"{printable(os.path.basename(self.file))}:{self.line}"

    @property
    def code(self) -> str:
        """The text of the line, or an empty string when the file cannot be read."""
        return printable(linecache.getline(self.file, self.line).strip().expandtabs())

    def describe(self) -> str:
        """``file:line in function:  code``, as messages print it."""
        code = self.code
        where = f"{printable(self.file)}:{self.line} in {printable(self.function)}"
        return where + (f":  {code}" if code else "")


def near_matches(name: str, known: Iterable[str], most: int, cutoff: float) -> list[str]:
    """The known names that a name resembles at least so much, the nearest first."""
    import difflib  # errors alone need it

    return difflib.get_close_matches(name, list(known), most, cutoff)


def printable(text: str) -> str:
    r"""The text with escapes for what ends a line, and for all else that is not printed.

    >>> printable("a\nb\u2028c")
    'a\\nb\\u2028c'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def is_installed(file: str) -> bool:
    """Whether a file is that of an installed library."""
    return "site-packages" in file or "dist-packages" in file


@functools.lru_cache(maxsize=4096)
def is_library(file: str) -> bool:
    """Whether a file is Zenith's, or that of a library through which Zenith is called.

    A code object names its file as the path it was imported by, which may go through ``..`` and links.
    """
    ours = not file.startswith("<") and os.path.realpath(file).startswith(_PACKAGE)
    return ours or (any(folder in file for folder in _FOREIGN) and is_installed(file))


def user_frame() -> FrameType | None:
    """The innermost frame on the stack that belongs neither to Zenith nor to a library it is called through."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_library(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def user_line() -> SourceLine | None:
    """The line of :func:`user_frame`."""
    frame = user_frame()
    if frame is None:
        return None
    return SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_globals.get(MODULE, ""))


def _is_users(file: str) -> bool:
    """Whether a file is neither a library's, nor Python's, nor what these compile."""
    return not is_library(file) and not file.startswith((os.path.dirname(os.__file__), "<string>"))


@contextmanager
def depth_checked(name: str) -> Iterator[None]:
    """What traces or compiles the function of this name; a DepthError at the user's innermost line for deep recursion.

    That is one of the function itself, which never ends where values decide when it shall, or one of Zenith's through
    loops, branches and sizes that depend on values, each of which is inside of the one before.
    """
    try:
        yield
    except DepthError:
        raise
    except RecursionError as error:
        places = ((f.f_code, line) for f, line in traceback.walk_tb(error.__traceback__))
        own = [SourceLine(code.co_filename, line, code.co_name) for code, line in places if _is_users(code.co_filename)]
        raise DepthError(
            f"{name} needs more calls in each other than Python's recursion limit of {sys.getrecursionlimit()}",
            where=own[-1] if own else None,
            fix="let a function that calls itself end by what is known while it is traced, such as a static argument; "
            "where loops make many arrays whose sizes depend on values, raise the limit: sys.setrecursionlimit",
        ) from None  # whose traceback would be as deep


def message(what: str, where: SourceLine | None = None, types: tuple[object, ...] = (), fix: str | None = None) -> str:
    """The text of an error or warning."""
    lines = [what]
    if types:
        lines.append("  types: " + ", ".join(str(t) for t in types))
    if where is not None:
        lines.append("  at " + where.describe())
    if fix:
        lines.append("  fix: " + fix)
    return "\n".join(lines)


def warn_at(line: SourceLine | None, warning: Warning) -> None:
    """Warn at a line of the user's; where there is none, at the line that called what calls this."""
    if line is None:
        warnings.warn(warning, stacklevel=3)
        return
    modules = list(sys.modules.items())
    here = (name for name, module in modules if getattr(module, "__dict__", {}).get("__file__") == line.file)
    module = next(here, line.file)  # where it is None, nothing is said
    warnings.warn_explicit(warning, type(warning), line.file, line.line, module)


class ZenithError(Exception):
    """The base of every error that Zenith raises.

    Parameters
    ----------
    what: what was wrong, in one sentence.
    where: the user's line; None when the error belongs to no line.
    types: the operand types, as text.
    fix: what the user can do.
    """

    def __init__(
        self, what: str, *, where: SourceLine | None = None, types: tuple[object, ...] = (), fix: str | None = None
    ) -> None:
        self.what, self.where, self.types, self.fix = what, where, types, fix
        super().__init__(message(what, where, types, fix))

    def at(self, where: SourceLine | None) -> ZenithError:
        """The same error with a line, unless it has one already."""
        if where is None or self.where is not None:
            return self
        located = type(self)(self.what, where=where, types=self.types, fix=self.fix)
        return located.with_traceback(self.__traceback__)


class TraceError(ZenithError):
    """The function did something that a recorded program cannot express (Python ``if`` on a value, impurity ...).

    It is no builtin error: ``try: n = float(x) except TypeError: n = 0`` would silently take the other branch.
    """


class ValueTypeError(TraceError, TypeError):
    """A Python value is not of the type that it must be: an axis is no integer, an argument no array."""


class ShapeError(ZenithError, ValueError):
    """Sizes do not fit."""


class AxisError(ShapeError, IndexError):
    """An array has no such axis; an IndexError, too, as NumPy's."""


class DTypeError(ZenithError, TypeError):
    """An element type does not fit or is not supported."""


class CallError(ZenithError, TypeError):
    """A function was called with arguments that it does not have, or without those that it needs."""


class ArgumentError(ZenithError, ValueError):
    """An argument has a value that says nothing: an unknown word, a quantile above 1."""


def integers(given: Any, name: str) -> list[int]:
    """One integer, or several, as a list; ArgumentError for anything else that was given as ``name``."""
    found = [given] if isinstance(given, Integral) or not isinstance(given, Iterable) else list(given)
    if not all(isinstance(number, Integral) for number in found):
        raise ArgumentError(f"{name} is {given!r}, no number of an argument", where=user_line(),
                            fix="give an integer, counted from 0, or a tuple of them")  # fmt: skip
    return [int(number) for number in found]


class UnsupportedError(ZenithError, NotImplementedError):
    """An operation that Zenith does not have."""


class OutOfBoundsError(ZenithError, IndexError):
    """An index was outside its axis when the program ran."""


class CheckError(ZenithError, RuntimeError):
    """A check of a program's values failed when it ran: see :func:`zenith.error_if`."""


class NumberError(ZenithError, OverflowError):
    """A Python number does not fit into an element type."""


class MissingAttributeError(ZenithError, AttributeError):
    """An attribute that does not exist: one of NumPy's arrays that traced arrays lack, or a setting."""


class PerformanceWarning(UserWarning):
    """Something takes longer than it has to, and could be written otherwise."""


class RecompilationWarning(PerformanceWarning):
    """A function was compiled many times, each time for other arguments; says why the latest call compiled."""


class WideningWarning(PerformanceWarning):
    """Arrays of float32 or less became float64 by NumPy's rules, through a scalar that nobody asked to be float64."""


class FallbackWarning(UserWarning):
    """PyTorch computes an operator of a compiled model that Zenith has no rule for."""


class VerifyError(ZenithError, ValueError):
    """A graph is malformed; names the node and the user's line."""


class ParseError(ZenithError, ValueError):
    """A text is not a graph."""


class CompileError(ZenithError, RuntimeError):
    """Code generation failed inside Zenith: a defect of Zenith, not of the user's program."""


class DepthError(ZenithError, RecursionError):
    """Tracing or compiling needs more calls in each other than Python allows."""


class RecompilationError(ZenithError, RuntimeError):
    """A call would have compiled where that is forbidden or limited."""


class LoadError(ZenithError, ValueError):
    """A saved file cannot be used here: it is damaged, or was made by another Zenith or for another processor."""


class DeviceError(ZenithError, RuntimeError):
    """An array lives on a device that cannot be used here."""


class CacheWarning(UserWarning):
    """The cache on disk is not used, partly or entirely; work goes on. Says why, and what to do."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(f"{what}\n  fix: {fix}")
