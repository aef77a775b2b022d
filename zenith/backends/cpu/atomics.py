"""What native code needs from the processor and from libc, as Numba intrinsics that emit LLVM directly.

Every function here is called from compiled code only, takes and returns plain 64-bit integers, and costs no compile
time worth counting. Addresses are integers, so that a caller computes ``base + offset`` and nothing has a type to
infer. There are four families: atomic words, the pause between two looks at a word, calls through a function
pointer, and libc calls (resolved by name in the running process, as every symbol of JIT code is).

>>> from numba import njit
>>> import numpy as np
>>> @njit("void(int64)")
... def increment(address):
...     fetch_add(address, 1)
>>> counter = np.zeros(1, np.int64)
>>> increment(counter.ctypes.data)
>>> int(counter[0])
1
"""

from __future__ import annotations

import platform
import time
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_WORD = ir.IntType(64)
_INT = ir.IntType(32)
_WORD_POINTER = _WORD.as_pointer()
_WORD_BYTES = 8
_NANOSECONDS = 1_000_000_000

_int64 = types.int64
_void = types.void


def _pointer(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, _WORD_POINTER)


def _declare(builder: ir.IRBuilder, name: str, returns: ir.Type, *arguments: ir.Type) -> ir.Function:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(returns, arguments), name)


@intrinsic
def load_acquire(typingctx, address):
    """Read the word at ``address``; what its writer stored before a release is visible afterwards."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.load_atomic(_pointer(builder, args[0]), "acquire", _WORD_BYTES, typ=_WORD)

    return _int64(_int64), codegen


@intrinsic
def store_release(typingctx, address, value):
    """Write the word at ``address`` after everything this thread wrote before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.store_atomic(args[1], _pointer(builder, args[0]), "release", _WORD_BYTES)
        return context.get_dummy_value()

    return _void(_int64, _int64), codegen


@intrinsic
def compare_exchange(typingctx, address, expected, value):
    """Replace ``expected`` by ``value`` at ``address``; return 1, or 0 when another value was found there."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        address, expected, value = args
        pair = builder.cmpxchg(_pointer(builder, address), expected, value, "acq_rel", "acquire")
        return builder.zext(builder.extract_value(pair, 1), _WORD)

    return _int64(_int64, _int64, _int64), codegen


@intrinsic
def fetch_add(typingctx, address, amount):
    """Add ``amount`` to the word at ``address`` in one step and return what was there before."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return builder.atomic_rmw("add", _pointer(builder, args[0]), args[1], "acq_rel")

    return _int64(_int64, _int64), codegen


def _emit_pause(builder: ir.IRBuilder) -> None:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        builder.call(_declare(builder, "llvm.x86.sse2.pause", ir.VoidType()), ())
    elif machine in ("aarch64", "arm64"):
        # An instruction barrier: `yield` takes one cycle there, which makes a spinning loop far too hot.
        builder.call(_declare(builder, "llvm.aarch64.isb", ir.VoidType(), _INT), (_INT(15),))


@intrinsic
def pause(typingctx):
    """Tell the processor that this is a spinning loop: some tens of nanoseconds on x86 and arm64, else nothing."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        _emit_pause(builder)
        return context.get_dummy_value()

    return _void(), codegen


@intrinsic
def call_kernel(typingctx, function, begin, end, args_address):
    """Call the kernel at address ``function``: ``void kernel(int64 begin, int64 end, int64* args)``."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        kernel_type = ir.FunctionType(ir.VoidType(), (_WORD, _WORD, _WORD_POINTER))
        kernel = builder.inttoptr(args[0], kernel_type.as_pointer())
        builder.call(kernel, (args[1], args[2], _pointer(builder, args[3])))
        return context.get_dummy_value()

    return _void(_int64, _int64, _int64, _int64), codegen


@intrinsic
def sched_yield(typingctx):
    """Let another thread that waits for this core run first."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        builder.call(_declare(builder, "sched_yield", _INT), ())
        return context.get_dummy_value()

    return _void(), codegen


def _emit_transfer(name: str, builder: ir.IRBuilder, args: Any) -> ir.Value:
    transfer = _declare(builder, name, _WORD, _INT, _WORD_POINTER, _WORD)
    return builder.call(transfer, (builder.trunc(args[0], _INT), _pointer(builder, args[1]), args[2]))


@intrinsic
def read_bytes(typingctx, descriptor, address, count):
    """POSIX ``read``: the number of bytes that arrived at ``address``, or -1. Blocks."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _emit_transfer("read", builder, args)

    return _int64(_int64, _int64, _int64), codegen


@intrinsic
def write_bytes(typingctx, descriptor, address, count):
    """POSIX ``write``: the number of bytes taken from ``address``, or -1."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _emit_transfer("write", builder, args)

    return _int64(_int64, _int64, _int64), codegen


@intrinsic
def nanoseconds(typingctx):
    """The monotonic clock in nanoseconds (``time.monotonic_ns``); costs some tens of nanoseconds."""

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        timespec = ir.ArrayType(_WORD, 2)
        moment = cgutils.alloca_once(builder, timespec)
        clock = _declare(builder, "clock_gettime", _INT, _INT, timespec.as_pointer())
        builder.call(clock, (_INT(time.CLOCK_MONOTONIC), moment))
        seconds = builder.extract_value(builder.load(moment), 0)
        rest = builder.extract_value(builder.load(moment), 1)
        return builder.add(builder.mul(seconds, _WORD(_NANOSECONDS)), rest)

    return _int64(), codegen
