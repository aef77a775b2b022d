"""CPython's C API for native code, as Numba intrinsics: each calls the function that its docstring names.

An object is its address. Symbols are resolved in the running process. The caller has the GIL, unless it is said.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba import types
from numba.core import cgutils

from zenith.backends.cpu.native_intrinsics import intrinsic
from zenith.backends.cpu.numba_protocols import Signature, TargetContext, Values

_WORD = ir.IntType(64)
_int64 = types.int64
_float64 = types.float64
_void = types.void

Emit = Callable[[TargetContext, ir.IRBuilder, Signature, Values], ir.Value]
PYTHON_SYMBOLS: set[str] = set()  # the functions that are called by name


def _calling(name: str) -> Emit:
    """What emits a call of one of CPython's functions, of words and floats."""
    PYTHON_SYMBOLS.add(name)

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        returns = ir.VoidType() if sig.return_type is _void else _WORD
        kind = ir.FunctionType(returns, [arg.type for arg in args])
        value = builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args)
        return context.get_dummy_value() if sig.return_type is _void else value

    return codegen


def _calling_address() -> Emit:
    """What emits a call of the function at the address that comes first."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(_WORD, [_WORD] * (len(args) - 1))
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])

    return codegen


@intrinsic
def release_gil(typingctx):
    """``PyEval_SaveThread``: let other threads run Python; the state to give to :func:`take_gil`."""
    return _int64(), _calling("PyEval_SaveThread")


@intrinsic
def take_gil(typingctx, state):
    """``PyEval_RestoreThread``."""
    return _void(_int64), _calling("PyEval_RestoreThread")


@intrinsic
def new_reference(typingctx, object):
    """``Py_IncRef``."""
    return _void(_int64), _calling("Py_IncRef")


@intrinsic
def drop_reference(typingctx, object):
    """``Py_DecRef``."""
    return _void(_int64), _calling("Py_DecRef")


@intrinsic
def integer_value(typingctx, number):
    """``PyLong_AsLongLong``: -1 and an error where a number does not fit."""
    return _int64(_int64), _calling("PyLong_AsLongLong")


@intrinsic
def has_error(typingctx):
    """``PyErr_Occurred``: 0 where there is none."""
    return _int64(), _calling("PyErr_Occurred")


@intrinsic
def clear_error(typingctx):
    """``PyErr_Clear``."""
    return _void(), _calling("PyErr_Clear")


@intrinsic
def call_object(typingctx, function):
    """``PyObject_CallNoArgs``: 0 where it raised."""
    return _int64(_int64), _calling("PyObject_CallNoArgs")


@intrinsic
def call_on(typingctx, function, object):
    """``PyObject_CallOneArg``: 0 where it raised."""
    return _int64(_int64, _int64), _calling("PyObject_CallOneArg")


@intrinsic
def look_at(typingctx, function, object, view):
    """``dltensor_from_py_object_no_sync`` of DLPack, whose address comes first: fill a ``DLTensor``, 0 where it has."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        outcome = _calling_address()(context, builder, sig, args)
        return builder.and_(outcome, _WORD(0xFFFFFFFF))  # a C int

    return _int64(_int64, _int64, _int64), codegen


@intrinsic
def new_tuple(typingctx, length):
    """``PyTuple_New``: 0 where there is no memory."""
    return _int64(_int64), _calling("PyTuple_New")


@intrinsic
def set_item(typingctx, tuple, index, item):
    """``PyTuple_SetItem``, which takes over the reference to the item."""
    return _void(_int64, _int64, _int64), _calling("PyTuple_SetItem")


@intrinsic
def new_bool(typingctx, number):
    """``PyBool_FromLong``."""
    return _int64(_int64), _calling("PyBool_FromLong")


@intrinsic
def new_int(typingctx, number):
    """``PyLong_FromLongLong``: 0 where there is no memory, as of the next two."""
    return _int64(_int64), _calling("PyLong_FromLongLong")


@intrinsic
def new_float(typingctx, number):
    """``PyFloat_FromDouble``."""
    return _int64(_float64), _calling("PyFloat_FromDouble")


@intrinsic
def new_complex(typingctx, real, imaginary):
    """``PyComplex_FromDoubles``."""
    return _int64(_float64, _float64), _calling("PyComplex_FromDoubles")


@intrinsic
def call_new_from_descr(typingctx, function, type, descr, rank, dims):
    """``PyArray_NewFromDescr``, whose address comes first: a new array in row-major order; 0 where there is none.

    It takes over the reference to the element type.
    """

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        nothing = [_WORD(0)] * 4  # strides, data, flags, and an object for __array_finalize__
        return _calling_address()(context, builder, sig, [*args, *nothing])

    return _int64(_int64, _int64, _int64, _int64, _int64), codegen


@intrinsic
def call_scalar(typingctx, function, data, descr, owner):
    """``PyArray_Scalar``, whose address comes first: the number at ``data``."""
    return _int64(_int64, _int64, _int64, _int64), _calling_address()
