"""Control over compiling: why a call needs a new program, how to avoid that, and refusing to compile at all.

>>> import numpy as np, zenith
>>> double = zenith.jit(lambda x: x * 2)
>>> compiled = double.lower(np.ones(3)).compile()
>>> with forbid_recompile():
...     double(np.ones(5))
array([2., 2., 2., 2., 2.])
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from zenith.api.binding import SourceGuard
from zenith.config import config
from zenith.errors import (
    RecompilationError,
    RecompilationWarning,
    SourceLine,
    WideningWarning,
    is_installed,
    message,
    user_line,
    warn_at,
)
from zenith.trace.recorder import WideningReport

_forbidden: ContextVar[bool] = ContextVar("zenith_recompilation_forbidden", default=False)

MANY = 8  # programs of one function, which are a reason to warn
AHEAD = "compile ahead: .lower(...).compile() with such arguments, or one call, beforehand"


@contextmanager
def forbid_recompile() -> Iterator[None]:
    """Within this block nothing is compiled: a call that would raises RecompilationError with the reason.

    Applies to the thread (and for the asyncio tasks) that entered the block. Raises RecompilationError, a ZenithError
    and RuntimeError; what was compiled before runs as ever.

    >>> import numpy as np, zenith
    >>> with forbid_recompile():
    ...     zenith.jit(lambda x: x + 1)(np.ones(3))
    Traceback (most recent call last):
    ...
    zenith.errors.RecompilationError: <lambda> would be compiled for (x: numpy f64[_]), ...
    """
    token = _forbidden.set(True)
    try:
        yield
    finally:
        _forbidden.reset(token)


@dataclass(frozen=True)
class Reason:
    """Why a call compiles, and what to do so that it does not."""

    why: str
    fix: str
    short: str = ""  # the same of one earlier program, where ``why`` says it of each
    line: SourceLine | None = None  # which caused it

    def __str__(self) -> str:
        return self.why


FIRST = Reason("first call", AHEAD)
CLEARED = "cache_clear() was called"
EVICTED = "evicted"  # ``dropped`` replaces it by a text that names the bound


@dataclass(frozen=True)
class Miss:
    """A call that compiled: what it was given, why nothing fitted, and how to avoid that."""

    call: tuple[str, ...]
    reason: str
    fix: str = ""

    def __str__(self) -> str:
        return f"({', '.join(self.call)}): {self.reason}"


def check_allowed(name: str, miss: Miss, earlier: Sequence[Miss], limit: int | None, compilations: int) -> None:
    """Raise RecompilationError when the compilation that ``miss`` describes is forbidden or one too many."""
    call = f"({', '.join(miss.call)})"
    if _forbidden.get():
        why = "it has not been compiled yet" if miss.reason == FIRST.why else miss.reason
        raise RecompilationError(
            f"{name} would be compiled for {call}, and forbid_recompile() is in force: {why}",
            where=user_line(), fix=miss.fix,
        )  # fmt: skip
    if limit is not None and compilations >= limit:
        every = "".join(
            f"\n  compilation {i}: {m}" for i, m in enumerate([*earlier, miss], compilations - len(earlier))
        )
        raise RecompilationError(
            f"{name} would be compiled once more for {call}, and max_compilations is {limit}{every}",
            where=user_line(), fix=miss.fix,
        )  # fmt: skip


def dropped(why: str) -> Reason:
    """The reason of a call whose program existed once."""
    if why == EVICTED:
        return Reason(f"its program had been dropped: at most {config.executables} are cached",
                      "raise zenith.config.executables (ZENITH_EXECUTABLES)")  # fmt: skip
    return Reason(why, AHEAD)


def new_call(words: Sequence[str], before: Sequence[str]) -> Reason:
    """The reason of a call of types, structure or static values that were not seen yet; ``before`` is another call."""
    new = [word for word in words if word not in before]
    static = [word for word in new if ": " not in word and "=" in word]
    if static:
        name = static[0].partition("=")[0]
        fix = f"pass {name} as an array or a tensor and do not declare {name} static, or {AHEAD}"
    else:
        fix = f"convert the arguments to types that it has programs for, or {AHEAD}"
    return Reason("new: " + (", ".join(new) or "another structure"), fix)


def broken_assumptions(
    conditions: Sequence[SourceGuard | None], specialized: Sequence[tuple[object, SourceLine | None]]
) -> Reason:
    """The reason of a call that fits no program of its types, by the first condition of each that is false."""
    false = dict.fromkeys(c for c in conditions if c is not None)
    lines = [condition.line for condition in false]
    asked = next((line for _, line in specialized if line is not None and line in lines), None)
    if asked is not None:
        fix = f"at {asked}, where a size became a number, write {alternative(asked)}"
    elif lines and lines[0] is not None:
        fix = f"choose between arrays instead of branching on a size at {lines[0]}, or {AHEAD}"
    else:
        fix = AHEAD
    why = [f"{condition}, which is false here" for condition in false]
    short = f"{why[-1]}, and {len(why) - 1} conditions like it" if len(why) > 1 else ""
    return Reason("; ".join(why), fix, short, list(false)[-1].line if false else None)


def warn_of_many(name: str, reason: Reason) -> None:
    """RecompilationWarning, at the line of the call, for a function that has as many programs as few need."""
    where = user_line()
    what = f"{name} was compiled for the {MANY}th time: {reason.short or reason.why}"
    fix = f"{reason.fix}; {name}.explain() lists all reasons"
    warn_at(where, RecompilationWarning(message(what, reason.line or where, fix=fix)))


def warn_of_widening(name: str, widening: WideningReport) -> None:
    """WideningWarning at the line that widens, unless that is a library's."""
    if widening.line is None or is_installed(widening.line.file):
        return
    scalar = "follows from a size" if widening.of_size else "is NumPy's number, and not Python's"
    what = (f"{name} computes {widening.function} of {widening.narrow} in float64 by NumPy's rules, through a scalar "
            f"of float64 that {scalar}")  # fmt: skip
    fix = f"{narrower(widening)}; where float64 is meant, write x.astype(numpy.float64)"
    warn_at(widening.line, WideningWarning(message(what, widening.line, fix=fix)))


def narrower(widening: WideningReport) -> str:
    """What to write so that arrays stay as narrow as they are."""
    if widening.of_size:
        return "write n ** 0.5 for numpy.sqrt(n), a Python number, or numpy.sqrt(n).astype(x.dtype)"
    return "write float(s) for the scalar s, a Python number, or s.astype(x.dtype)"


_ALTERNATIVES = (
    ("range(", "a vectorised form, or pass the count as a static argument"),
    ("len(", "x.shape[0], which stays a symbol"),
    ("for ", "operations on whole arrays, or zenith.scan, whose body is compiled once"),
    ("zeros(", "zenith.numpy.zeros, or numpy.zeros(..., like=x)"),
    ("ones(", "zenith.numpy.ones, or numpy.ones(..., like=x)"),
    ("full(", "zenith.numpy.full, or numpy.full(..., like=x)"),
    ("empty(", "zenith.numpy.empty, or numpy.empty(..., like=x)"),
    ("arange(", "zenith.numpy.arange, or numpy.arange(..., like=x)"),
    ("math.sqrt(", "n ** 0.5, which keeps the size a symbol"),
    ("math.", "the function of the same name in numpy, and .astype(x.dtype): it keeps the size a symbol"),
    ("int(", "the size itself: it computes like an int"),
    ("float(", "the size itself: together with arrays it counts as a number"),
)


def alternative(line: SourceLine | None) -> str:
    """What to write so that a size stays a symbol, judged by the line that fixed it."""
    code = "" if line is None else line.code
    fitting = (advice for word, advice in _ALTERNATIVES if word in code)
    return next(fitting, "functions of zenith.numpy, which take symbolic sizes")
