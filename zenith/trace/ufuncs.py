"""NumPy's ufuncs: calls on traced values, with a ufunc's options, and a ufunc's methods.

Methods are other functions of :mod:`zenith.numpy`, whose names are registered here: ``add.reduce`` is ``sum``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

import numpy as np

from zenith.trace.dispatch import Unsized, implementation, implements, lookup

if TYPE_CHECKING:
    from zenith.numpy.typing import Array, ArrayLike, Axes, DTypeLike, Out

METHODS = ("reduce", "accumulate", "outer", "at", "reduceat")
_REDUCTIONS: dict[str, str] = {}
_ACCUMULATIONS: dict[str, str] = {}


class Elementwise(Protocol):
    """An implementation of a ufunc: an elementwise function, with those methods of NumPy's that can be recorded."""

    __name__: str
    __qualname__: str

    def __call__(self, *operands: Any, **options: object) -> Any:
        """The function of each element, or of elements at the same indices."""

    def reduce(self, array: ArrayLike, axis: Axes = 0, **options: object) -> Array:
        """The function folded over the elements along axes, one after the other."""

    def accumulate(self, array: ArrayLike, axis: int = 0, dtype: DTypeLike | None = None, out: Out = None) -> Array:
        """The result of :meth:`reduce` for all elements up to each one."""

    def outer(self, x: ArrayLike, y: ArrayLike, /, **options: object) -> Array:
        """The function of every pair of elements."""

    def at(self, a: Array, indices: object, b: ArrayLike | None = None, /) -> None:
        """Write the function of elements and values, also where indices repeat."""


def of_ufunc(ufunc: np.ufunc) -> Callable[[Callable[..., object]], Elementwise]:
    """Register the decorated function for a ufunc, whose options and methods it gets: ``add(x, y, where=m, out=z)``,
    ``add.reduce(x)``. On concrete arrays they answer at once, on traced ones they are recorded.
    """

    def register(function: Callable[..., object]) -> Elementwise:
        public = implements(ufunc)(function)

        @functools.wraps(function)
        def call(*operands: ArrayLike, **options: object) -> object:
            given = _without_defaults(options) if options else options
            if "where" in given:
                return implementation("_ufunc_into")(public, ufunc, operands, {"out": None, **given})
            return public(*operands, **given)

        for method in METHODS:
            setattr(call, method, functools.partial(_ufunc_method, ufunc, method))
        return cast(Elementwise, call)

    return register


def reduce_by(ufunc_name: str, reduction: str) -> None:
    """Register which reduction ``ufunc.reduce`` is."""
    _REDUCTIONS[ufunc_name] = reduction


def accumulate_by(ufunc_name: str, accumulation: str) -> None:
    """Register which function of an array, ``axis`` and ``dtype`` ``ufunc.accumulate`` is."""
    _ACCUMULATIONS[ufunc_name] = accumulation


def reductions() -> Mapping[str, str]:
    """For the name of each ufunc that reduces the function that it then is."""
    return _REDUCTIONS


def accumulations() -> Mapping[str, str]:
    """For the name of each ufunc that accumulates the function that it then is."""
    return _ACCUMULATIONS


def array_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """A NumPy ufunc, or one of its methods, called on traced values."""
    if any(isinstance(x, Unsized) for x in inputs):
        return NotImplemented
    if method == "__call__":
        options = _without_defaults(kwargs)
        if options.get("out") is not None:
            return implementation("_ufunc_into")(lookup(ufunc), ufunc, inputs, options)
        return lookup(ufunc)(*inputs, **options)
    return _ufunc_method(ufunc, method, *inputs, **kwargs)


def _ufunc_method(ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
    """A method of a ufunc on arrays, traced or not."""
    name, given = ufunc.__name__, _without_defaults(options)
    if method == "reduce" and name in _REDUCTIONS:
        return _along(_REDUCTIONS[name], *inputs, **given)
    if method == "accumulate" and name in _ACCUMULATIONS:
        return _along(_ACCUMULATIONS[name], *inputs, **given)
    if method == "outer":
        return implementation("_ufunc_outer")(lookup(ufunc), *inputs, **given)
    if method == "at":
        return implementation("_ufunc_at")(ufunc, *inputs)
    return implementation(f"_ufunc_{method}")(lookup(ufunc), ufunc, *inputs, **given)


def _along(
    name: str, x: ArrayLike, axis: Axes = 0, dtype: DTypeLike | None = None, out: Out = None, *rest: object,
    **options: object,
) -> Any:  # fmt: skip
    """A function of an array along an axis, with the positions of arguments that a ufunc's method has."""
    named = dict(zip(("keepdims", "initial", "where"), rest, strict=False))
    typed = {} if dtype is None else {"dtype": dtype}
    return implementation(name)(x, axis=axis, out=out, **typed, **named, **options)


def _without_defaults(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords without defaults, which NumPy's ufuncs pass on, too."""
    plain = {"where": True, "casting": "same_kind", "order": "K", "subok": True, "out": None}
    return {
        k: v
        for k, v in kwargs.items()
        if not (k in plain and v is plain[k]) and not (k == "casting" and v == "same_kind")
    }
