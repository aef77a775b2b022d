"""What converted functions call: the user's own functions converted, Python's and NumPy's for traced values."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

import numpy as np

import zenith.numpy as znp
from zenith.convert.converted import converted, is_users
from zenith.convert.iterators import ITERATORS
from zenith.convert.list_items import need_plain_lists
from zenith.convert.lists import GrowingList, sized_list
from zenith.convert.makers import traced_array
from zenith.convert.numpy_functions import is_numpys, of_lists
from zenith.convert.optional import Optional, value_of
from zenith.convert.python_functions import INSTEAD, type_of
from zenith.convert.sequences import MAPPING
from zenith.convert.texts import method_of_text
from zenith.convert.typing import Function
from zenith.errors import TraceError
from zenith.trace.recorder import current_recorder

T = TypeVar("T")

# The code of each function that functools.singledispatch makes.
_DISPATCHING = cast(types.FunctionType, functools.singledispatch(callable)).__code__


def callee(function: Any) -> Function:
    """What is called in place of a function."""
    kind = type(function)
    if kind is types.FunctionType:
        if function.__code__ is _DISPATCHING:
            return functools.partial(_dispatched, function)
        return converted(function) if is_users(function) else INSTEAD.get(function, function)
    if kind is types.MethodType and type(function.__func__) is types.FunctionType and is_users(function.__func__):
        return types.MethodType(converted(function.__func__), function.__self__)
    if kind is types.MethodType and (instead := _instead(INSTEAD, function.__func__, None)) is not None:
        return functools.partial(instead, function.__self__)
    if kind is types.BuiltinMethodType and (make := _maker_of_method(function.__self__)) is not None:
        return make(function)
    if kind is type and _is_plain_class(function):
        return functools.partial(_made, function)
    called = inspect.getattr_static(kind, "__call__", None)
    if type(called) is types.FunctionType and is_users(called):
        return types.MethodType(converted(called), function)
    if kind in _MADE_OF_FUNCTIONS:
        return _MADE_OF_FUNCTIONS[kind](function)
    found = _instead(INSTEAD, function, function)
    if found is function:
        return of_lists(function) if is_numpys(function) else _of_c(function)
    given = _decided if function in _ASKING else value_of
    return lambda *args, **kwargs: found(*map(given, args), **kwargs)


def _maker_of_method(owner: object) -> Callable[[Any], Function] | None:
    """What makes of a method of C's of an object what is called in its place."""
    if isinstance(owner, str):
        return method_of_text
    return _method_of_constant if isinstance(owner, np.ndarray) else None


_ASKING = (isinstance, type, hasattr, getattr, np.isscalar)


def _decided(value: T) -> T:
    """A value whose class is asked for; TraceError where values decide whether it is None."""
    if isinstance(value, Optional):
        value.refuse()
    return value


def _instead(table: Mapping[object, Function], function: object, otherwise: T) -> Function | T:
    """What a table has for a function, if anything; what has no hash is in none."""
    try:
        return table.get(function, otherwise)
    except (TypeError, TraceError):
        return otherwise


def _dispatched(function: Any, *args: object, **kwargs: object) -> object:
    """A call of a ``functools.singledispatch``: for the type of what its first argument stands for."""
    if not args:
        return function(*args, **kwargs)
    return callee(function.dispatch(type_of(args[0]) or args[0].__class__))(*args, **kwargs)


def _is_plain_class(found: type) -> bool:
    """Whether a class is the user's, and made by its ``__init__`` alone."""
    start, new = getattr(found, "__init__", None), getattr(found, "__new__", None)
    return type(start) is types.FunctionType and is_users(start) and new is object.__new__


def _made(kind: type, *args: object, **kwargs: object) -> object:
    """An instance of a user's class, whose ``__init__`` is converted."""
    found: object = object.__new__(kind)
    converted(kind.__init__)(found, *args, **kwargs)  # type: ignore[misc]
    return found


def _of_c(function: Function) -> Function:
    """A function that is written in C, which does not ask lists what they hold."""
    recorder = current_recorder()
    of_c = isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType)
    if not of_c or recorder is None or recorder.lists is None:
        return function

    @functools.wraps(function)
    def call(*args: object, **kwargs: object) -> object:
        if any(sized_list(arg) is not None for arg in args):
            need_plain_lists()
        lists = [(arg, list.copy(arg)) for arg in args if isinstance(arg, GrowingList) and arg.owner is not recorder]
        result = function(*args, **kwargs)
        for given, before in lists:  # of a trace around: the function would change it once
            held = list.copy(given)
            if len(held) != len(before) or any(a is not b for a, b in zip(held, before, strict=True)):
                list.__setitem__(given, slice(None), before)
                need_plain_lists()
        return result

    return call


def _partial(made: functools.partial[object]) -> Function:
    return functools.partial(callee(made.func), *made.args, **made.keywords)


def _vectorized(made: np.vectorize) -> Function:
    """A function of ``numpy.vectorize``'s on arrays of the program: its function is traced once."""
    if current_recorder() is None:
        return made
    return znp.vectorize(callee(made.pyfunc), made.otypes, made.__doc__, made.excluded, False, made.signature)


_MADE_OF_FUNCTIONS: dict[type, Callable[[Any], Function]] = {functools.partial: _partial, np.vectorize: _vectorized}


def _method_of_constant(method: types.BuiltinMethodType) -> Function:
    """``table.copy()`` of an array that the function captures is an array of the program, which can be written."""
    if current_recorder() is None or method.__name__ not in ("copy", "astype"):
        return method
    return lambda *args, **kwargs: traced_array(method(*args, **kwargs))


def iterator(function: object) -> Function:
    """What is called in place of ``range``, ``enumerate``, ``map`` ..., if the name means that.

    What it gives is gone over once, where the call stands.
    """
    return _instead(ITERATORS, function, None) or _instead(MAPPING, function, None) or callee(function)
