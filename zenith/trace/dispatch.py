"""From NumPy's functions to Zenith's: one table by function object, one by name.

``zenith.numpy`` fills the tables when it is imported; tracers ask them from NumPy's protocols (``__array_ufunc__``,
``__array_function__``), from operators and from methods, so that every function is implemented once.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from zenith.errors import TraceError, UnsupportedError, user_line

_BY_NAME: dict[str, Callable[..., Any]] = {}
_BY_FUNCTION: dict[Any, Callable[..., Any]] = {}
_REFUSED: dict[Any, tuple[str, str]] = {}
_REDUCTIONS: dict[str, str] = {}


def implements(*functions: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function under its own name and for NumPy's ``functions``."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _BY_NAME[function.__name__] = function
        for numpy_function in functions:
            _BY_FUNCTION[numpy_function] = function
        return function

    return register


def refuse(functions: Sequence[Any], why: str, fix: str) -> None:
    """Register NumPy functions that cannot exist in a recorded program, with the reason and the way out."""
    for function in functions:
        _REFUSED[function] = (why, fix)


def reduce_by(ufunc_name: str, reduction: str) -> None:
    """Say which reduction ``ufunc.reduce`` is."""
    _REDUCTIONS[ufunc_name] = reduction


def implementation(name: str) -> Callable[..., Any]:
    """The function registered under a name."""
    return _BY_NAME[name]


def names() -> list[str]:
    """Every registered public name, sorted."""
    return sorted(n for n in _BY_NAME if not n.startswith("_"))


def array_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A NumPy ufunc, or one of its methods, called on traced values."""
    refuse_out(ufunc.__name__, kwargs, inputs)
    if method == "__call__":
        return _lookup(ufunc)(*inputs, **_without_defaults(kwargs))
    if method == "reduce" and ufunc.__name__ in _REDUCTIONS:
        return _reduce(_REDUCTIONS[ufunc.__name__], *inputs, **kwargs)
    if method == "outer":
        return _BY_NAME["_ufunc_outer"](_lookup(ufunc), *inputs)
    raise UnsupportedError(
        f"numpy.{ufunc.__name__}.{method} is not supported on traced arrays",
        where=user_line(),
        fix="methods that are: __call__, outer, and reduce of " + ", ".join(sorted(_REDUCTIONS)),
    )


def array_function(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A NumPy function called on traced values."""
    refuse_out(function.__name__, kwargs, args)
    return _lookup(function)(*args, **kwargs)


def refuse_out(name: str, kwargs: Mapping[str, Any], args: Sequence[Any] = ()) -> None:
    """TraceError when a call asks to write into an array (``out=``)."""
    if kwargs.get("out") is not None:
        raise TraceError(
            f"{name} cannot write into an array (out=, or an in-place operator on a NumPy array) while tracing",
            where=user_line(),
            types=tuple(a.type for a in args if hasattr(a, "recorder") and hasattr(a, "type")),
            fix="use the result: y = f(x) instead of f(x, out=y), y = y + x instead of y += x",
        )


def _reduce(name: str, x: Any, axis: Any = 0, dtype: Any = None, **options: Any) -> Any:
    typed = {} if dtype is None else {"dtype": dtype}
    return _BY_NAME[name](x, axis=axis, **typed, **_without_defaults(options))


def _without_defaults(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords without those that say nothing, as NumPy's ufuncs pass them on."""
    plain = {"where": True, "casting": "same_kind", "order": "K", "subok": True, "out": None}
    return {
        k: v
        for k, v in kwargs.items()
        if not (k in plain and v is plain[k]) and not (k == "casting" and v == "same_kind")
    }


def _lookup(function: Any) -> Callable[..., Any]:
    found = _BY_FUNCTION.get(function)
    if found is not None:
        return found
    name = getattr(function, "__name__", str(function))
    if function in _REFUSED:
        why, fix = _REFUSED[function]
        raise TraceError(f"{name}: {why}", where=user_line(), fix=fix)
    if isinstance(function, np.ufunc) and not hasattr(np, name) and f"_{name}" in _BY_NAME:
        return _BY_NAME[f"_{name}"]  # a ufunc of scipy.special, known by its name
    module = getattr(function, "__module__", None) or "numpy"
    near = difflib.get_close_matches(name, names(), n=3, cutoff=0.5)
    listed = f"near matches that are: {', '.join(near)}" if near else "write it with functions that are supported"
    raise UnsupportedError(f"{module}.{name} is not supported on traced arrays", where=user_line(), fix=listed)
