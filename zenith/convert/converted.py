"""The converted code of a user's function, which is made once.

A function is the user's unless it is part of Python, of Zenith, or installed as a library.
"""

from __future__ import annotations

import inspect
import sysconfig
import types
import weakref
from collections.abc import Callable

from zenith.convert import source
from zenith.convert.exceptions import callees, may_raise, prepare_exceptions
from zenith.convert.exits import lower_exits
from zenith.convert.matches import lower_matches
from zenith.convert.returns import defer_returns
from zenith.convert.rewrite import rewrite
from zenith.convert.syntax import RUNTIME
from zenith.errors import is_library

_PYTHONS = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_UNCONVERTIBLE = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_Variants = dict[object, types.CodeType | None]  # by the functions that are called, since these may raise or not
_converted: weakref.WeakKeyDictionary[types.CodeType, tuple[str, _Variants]] = weakref.WeakKeyDictionary()


def is_users(function: types.FunctionType) -> bool:
    """Whether a function is the user's, and one that can be converted."""
    file = function.__code__.co_filename
    return not is_library(file) and not file.startswith(_PYTHONS) and not function.__code__.co_flags & _UNCONVERTIBLE


def converted(function: types.FunctionType) -> Callable[..., object]:
    """A function with its loops, branches and calls expressed by the runtime; itself where its source is not known."""
    from zenith.convert import runtime

    code = function.__code__
    if code.co_flags & _UNCONVERTIBLE or function.__dict__.get(RUNTIME) is code:
        return function
    file, variants = _converted.get(code, ("", {}))
    if file != code.co_filename:  # also of equal code in another file
        _converted[code] = code.co_filename, (variants := {})
    called = callees(function)
    if called not in variants:
        variants[called] = _convert(function)
    known = variants[called]
    return function if known is None else source.function_of(function, known, runtime)


def _convert(function: types.FunctionType) -> types.CodeType | None:
    """The converted code of a function; None where its source is not known."""
    code = function.__code__
    found = source.definition(code)
    if found is None:
        return None
    node, owner = found
    node = source.PrivateNames(owner).visit(node)
    body = [source.returning(node.body)] if not isinstance(node.body, list) else node.body
    body = lower_exits(defer_returns(prepare_exceptions(lower_matches(body))), may_raise(function))
    return source.compiled(code, node, rewrite(node, body, code))
