"""From NumPy's functions to Zenith's: one table by function object, one by name.

``zenith.numpy`` fills the tables when it is imported; tracers ask them from NumPy's protocols (``__array_ufunc__``,
``__array_function__``), from operators and from methods, so that every function is implemented once. Whether a result
is a new array or a view of an argument is declared where a function is registered, and ``out=`` is a write after any
of them.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn, TypeVar

import numpy as np

from zenith.errors import CallError, TraceError, UnsupportedError, near_matches, user_line
from zenith.trace.results import as_number

# Advice for writing into NumPy's arrays: let the trace make them.
TRACED_ARRAY = (
    "let the trace make the array: zenith.numpy.zeros(shape), zenith.numpy.array(values), numpy.zeros_like(x) or "
    "numpy.zeros(shape, like=x) for a traced x, or x.copy() can be written; or use the result, y = y + x in place of "
    "y += x"
)
# Advice where NumPy needs the numbers themselves.
NUMBERS = (
    "a size is computed from shapes (x.shape[0]), is a static argument (static_argnums), or says how many there are at "
    "most (size=, as zenith.numpy.nonzero takes it)"
)
Result = TypeVar("Result")
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_BY_NAME: dict[str, Callable[..., Any]] = {}
_BY_FUNCTION: dict[object, Callable[..., Any]] = {}
_REFUSED: dict[object, tuple[str, str]] = {}


class Traced:
    """The base class of all stand-ins for arrays."""

    __slots__ = ()

    def renewed(self, boxed: bool = False, read_only: bool = False) -> Traced:
        """An array in new memory with the same elements; see :class:`zenith.trace.tracer.Tracer`."""
        raise NotImplementedError

    def may_show(self, source: Traced, function: str) -> None:
        """Note that NumPy's ``function`` might have given a view of another array."""
        raise NotImplementedError


class Unsized:
    """A value of a traced program that is no array: its size depends on values, or nothing has set it in every case.

    One that ``is_carried`` goes through branches and loops as what it is.
    """

    __slots__ = ()
    is_carried = False

    def refuse(self) -> NoReturn:
        """TraceError for what needs an array."""
        raise NotImplementedError

    def array(self) -> Any:
        """The array that it is where one is needed; by default TraceError."""
        self.refuse()

    def to_read(self) -> Any:
        """The same where it is not written."""
        return self.array()


def implements(
    *functions: Callable[..., object], gives: str = "new", module: str = ""
) -> Callable[[Callable[..., Result]], Callable[..., Result]]:
    """Register the decorated function under its name, prefixed with its ``module``, and for NumPy's ``functions``.

    Its arguments may be named as it names them (where the Array API standard has it, as that does), or as NumPy does.
    ``gives`` says what its results are in NumPy: ``"new"`` arrays, of which those without axes are numbers;
    ``"boxed"``, new arrays also where they have no axes; a ``"view"`` of an argument or the argument itself, as the
    function returns it; the ``"same"``, a view that is a number where the argument is one; a ``"maybe"``, which may be
    a view; or what is ``"shown"``, a view that cannot be written.
    """

    def register(function: Callable[..., Result]) -> Callable[..., Result]:
        public = _public(function, gives, functions)
        _BY_NAME[f"{module}.{function.__name__}" if module else function.__name__] = public
        for numpy_function in functions:
            _BY_FUNCTION[numpy_function] = public
        return public

    return register


def _public(
    function: Callable[..., Result], gives: str, of: tuple[Callable[..., object], ...]
) -> Callable[..., Result]:
    """The function with NumPy's names of arguments, and results of their own or written into a given ``out=``."""
    parameters = list(inspect.signature(function).parameters)
    position = parameters.index("out") if "out" in parameters else len(parameters)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            names = own_names(function, of)
            kwargs = {names.get(name, name): value for name, value in kwargs.items()}
        out = kwargs.pop("out", None)
        if len(args) > position and "out" in parameters:
            out, args = args[position], (*args[:position], None, *args[position + 1 :])
        try:
            result = function(*args, **kwargs)
        except TypeError:
            _check_call(function, args, kwargs)
            raise
        if out is not None:
            target, rule = out[0] if isinstance(out, tuple) else out, kwargs.get("casting", "same_kind")
            return _BY_NAME["_write_result"](target, result, function.__name__, rule)
        if gives == "same":
            return as_number(result) if args and isinstance(args[0], np.generic) else result
        if gives in ("view", "new", "boxed"):
            return result if gives == "view" else _renewed(result, gives == "boxed")
        return _showing(result, gives == "shown", args, function.__name__)

    return call


def _check_call(function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """CallError for arguments that a function does not have, or that are missing."""
    signature = inspect.signature(function)
    try:
        signature.bind(*args, **kwargs)
    except TypeError as error:
        name = function.__name__
        raise CallError(
            f"{name}: {error}", where=user_line(), fix=f"its arguments are {', '.join(signature.parameters)}"
        ) from None


@functools.lru_cache(maxsize=1024)
def own_names(own: Callable[..., object], functions: tuple[Callable[..., object], ...]) -> Mapping[str, str]:
    """For NumPy's names of arguments the names of the function here, where these differ."""
    known, ours = inspect.signature(own).parameters, _positional(own)
    pairs = [pair for f in functions for pair in zip(_positional(f), ours, strict=False)]
    return {theirs: name for theirs, name in pairs if theirs not in known}


def _positional(function: Callable[..., object]) -> list[str]:
    """The names of arguments that may be positional; a ufunc's have none.

    NumPy's functions in C have no signature before NumPy 2.4: their arguments have the names here alone.
    """
    if isinstance(function, np.ufunc):
        return []
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        return []
    return [p.name for p in parameters if p.kind in _POSITIONAL]


def _renewed(result: Any, boxed: bool) -> Any:
    """A new result as NumPy gives it: one without axes is a number, unless it is ``boxed``."""
    if isinstance(result, Traced):
        return result.renewed(boxed)
    if isinstance(result, (np.ndarray, np.generic)):
        return np.asarray(result) if boxed else as_number(result)
    if isinstance(result, (tuple, list)):
        items = [_renewed(item, boxed) for item in result]
        return result._make(items) if hasattr(result, "_make") else type(result)(items)
    return result


def _showing(result: Any, read_only: bool, args: Sequence[object], name: str) -> Any:
    """A result that may be a view of the one array among the arguments."""
    sources = [a for a in args if isinstance(a, Traced)]
    if isinstance(result, Traced):
        result = result.renewed(read_only=read_only)
        if len(sources) == 1:
            result.may_show(sources[0], name)
    return result


def refuse(functions: Sequence[object], why: str, fix: str) -> None:
    """Register NumPy functions that cannot exist in a recorded program, with the reason and the way out."""
    for function in functions:
        _REFUSED[function] = (why, fix)


def implementation(name: str) -> Callable[..., Any]:
    """The function registered under a name."""
    return _BY_NAME[name]


def registered(function: object) -> Callable[..., Any] | None:
    """The implementation of NumPy's function; None when there is none."""
    return _BY_FUNCTION.get(function)


def refused(function: object) -> tuple[str, str] | None:
    """Why NumPy's function cannot exist in a recorded program, and the way out; None when nothing is known.

    Instances of a class of NumPy's are refused with it.
    """
    for known in (function, type(function)):
        if isinstance(known, Hashable) and known in _REFUSED:
            return _REFUSED[known]
    return None


def knows(function: object) -> bool:
    """Whether NumPy dispatches a function on its array arguments, and it is implemented or refused here."""
    return hasattr(function, "_implementation") and (function in _BY_FUNCTION or function in _REFUSED)


def ours(name: str) -> str:
    """The full name in :mod:`zenith.numpy` of NumPy's object of this full name; empty where there is none."""
    found: object = sys.modules["zenith"]
    for name_part in (path := ["numpy", *name.split(".")[1:]]):
        found = vars(found).get(name_part) if isinstance(found, ModuleType) else None
    return "" if found is None else ".".join(["zenith", *path])


def names() -> list[str]:
    """Every registered public name, sorted."""
    return sorted(n for n in _BY_NAME if not n.startswith("_"))


def array_function(function: object, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """A NumPy function called on traced values."""
    return lookup(function)(*args, **kwargs)


def refuse_numpy(name: str, array: Any, types: tuple[object, ...] = ()) -> NoReturn:
    """TraceError for a traced value that is to be written into an array that NumPy made."""
    raise TraceError(
        f"{name} cannot write what is traced into an array that NumPy made (out=, or an in-place operator)",
        where=user_line(),
        types=types or (f"numpy {array.dtype}{list(array.shape)}",),
        fix=TRACED_ARRAY,
    )


def _of_scipy(name: str) -> Callable[..., Any]:
    """The function for a ufunc of ``scipy.special``, known by its name."""
    if f"special.{name}" in _BY_NAME:
        return _BY_NAME[f"special.{name}"]
    supported = [n.removeprefix("special.") for n in names() if n.startswith("special.")]
    raise UnsupportedError(
        f"scipy.special.{name} is not supported on traced arrays",
        where=user_line(),
        fix=f"write it with those that are: {', '.join(supported)}; or call SciPy's with zenith.pure_callback",
    )


def lookup(function: object) -> Callable[..., Any]:
    """The implementation of NumPy's function; an error with the way out where there is none."""
    found = _BY_FUNCTION.get(function)
    if found is not None:
        return found
    name = getattr(function, "__name__", str(function))
    if function in _REFUSED:
        why, fix = _REFUSED[function]
        raise TraceError(f"{name}: {why}", where=user_line(), fix=fix)
    special = sys.modules.get("scipy.special")
    if special is not None and getattr(special, name, None) is function and getattr(np, name, None) is not function:
        return _of_scipy(name)
    if isinstance(function, np.ufunc) and set("".join(function.types)) == set("O->"):
        raise TraceError(
            f"{name}: it calls Python for each element, as numpy.frompyfunc has made it",
            where=user_line(),
            fix="zenith.numpy.vectorize(function)(x), or zenith.vmap(function)(x) for a function of slices",
        )
    module = getattr(function, "__module__", None) or "numpy"
    near = near_matches(name, names(), 3, 0.5)
    listed = f"near matches that are: {', '.join(near)}" if near else "write it with functions that are supported"
    raise UnsupportedError(f"{module}.{name} is not supported on traced arrays", where=user_line(), fix=listed)
