"""What native code needs from the processor and from libc, as Numba intrinsics that emit LLVM directly.

Every function here is called from compiled code only, takes and returns plain 64-bit integers, and costs no compile
time worth counting. Addresses are integers; an atomic word is named by a base address and a byte offset. There are
four families: atomic words, the pause of a spinning loop, calls through a function pointer, and libc calls
(resolved by name in the running process, as every symbol of JIT code is).

>>> from numba import njit
>>> import numpy as np
>>> @njit("void(int64)")
... def increment(address):
...     fetch_add(address, 0, 1)
>>> counter = np.zeros(1, np.int64)
>>> increment(counter.ctypes.data)
>>> int(counter[0])
1
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable
from typing import cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import infer_global, make_concrete_template
from numba.extending import lower_builtin

from zenith.backends.cpu.numba_protocols import Intrinsic, Signature, TargetContext, Values

_WORD = ir.IntType(64)
_INT = ir.IntType(32)
_WORD_POINTER = _WORD.as_pointer()
_WORD_BYTES = 8
_NANOSECONDS = 1_000_000_000
_LINUX = sys.platform == "linux"

_int64 = types.int64
_void = types.void


def intrinsic(definition: Callable[..., Intrinsic]) -> Callable[..., int]:
    """Let compiled code call a function whose ``definition`` gives its signature and what emits it, for words alone."""
    arity = definition.__code__.co_argcount - 1
    typing, emit = definition(None, *[_int64] * arity)
    infer_global(definition, types.Function(make_concrete_template(definition.__name__, definition, [typing])))
    lower_builtin(definition, *typing.args)(emit)
    return cast("Callable[..., int]", definition)  # what Numba compiles in its place


def _pointer(builder: ir.IRBuilder, address: ir.Value) -> ir.Value:
    return builder.inttoptr(address, _WORD_POINTER)


def _declare(builder: ir.IRBuilder, name: str, returns: ir.Type, *arguments: ir.Type) -> ir.Function:
    return cgutils.get_or_insert_function(builder.module, ir.FunctionType(returns, arguments), name)


def _word(builder: ir.IRBuilder, args: Values) -> ir.Value:
    """The pointer to the word that the first two arguments, base and offset, name."""
    return _pointer(builder, builder.add(args[0], args[1]))


@intrinsic
def load_acquire(typingctx, base, offset):
    """Read the word; what its writer stored before a release is visible afterwards."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return builder.load_atomic(_word(builder, args), "acquire", _WORD_BYTES, typ=_WORD)

    return _int64(_int64, _int64), codegen


@intrinsic
def store_release(typingctx, base, offset, value):
    """Write the word after everything this thread wrote before."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        builder.store_atomic(args[2], _word(builder, args), "release", _WORD_BYTES)
        return context.get_dummy_value()

    return _void(_int64, _int64, _int64), codegen


def _load_narrow(builder: ir.IRBuilder, address: ir.Value, bits: int) -> ir.Value:
    kind = ir.IntType(bits)
    return builder.load(builder.inttoptr(address, kind.as_pointer()))


@intrinsic
def load_int32(typingctx, address):
    """The 32-bit integer at an address."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return builder.sext(_load_narrow(builder, args[0], 32), _WORD)

    return _int64(_int64), codegen


@intrinsic
def load_byte(typingctx, address):
    """The byte at an address."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return builder.zext(_load_narrow(builder, args[0], 8), _WORD)

    return _int64(_int64), codegen


@intrinsic
def load_float64(typingctx, address):
    """The float64 at an address."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

    return types.float64(_int64), codegen


@intrinsic
def copy_bytes(typingctx, to, source, count):
    """``memcpy``."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        function = _declare(builder, "memcpy", _WORD_POINTER, _WORD_POINTER, _WORD_POINTER, _WORD)
        builder.call(function, (_pointer(builder, args[0]), _pointer(builder, args[1]), args[2]))
        return context.get_dummy_value()

    return _void(_int64, _int64, _int64), codegen


@intrinsic
def compare_exchange(typingctx, base, offset, expected, value):
    """Replace ``expected`` by ``value`` in the word; return 1, or 0 when another value was found there."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        pair = builder.cmpxchg(_word(builder, args), args[2], args[3], "acq_rel", "acquire")
        return builder.zext(builder.extract_value(pair, 1), _WORD)

    return _int64(_int64, _int64, _int64, _int64), codegen


@intrinsic
def fetch_add(typingctx, base, offset, amount):
    """Add ``amount`` to the word in one step and return what was there before."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return builder.atomic_rmw("add", _word(builder, args), args[2], "acq_rel")

    return _int64(_int64, _int64, _int64), codegen


def _emit_pause(builder: ir.IRBuilder) -> None:
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        builder.call(_declare(builder, "llvm.x86.sse2.pause", ir.VoidType()), ())
    elif machine in ("aarch64", "arm64"):
        # An instruction barrier: `yield` takes one cycle there, which makes a spinning loop far too hot.
        builder.call(_declare(builder, "llvm.aarch64.isb", ir.VoidType(), _INT), (_INT(15),))


@intrinsic
def pause(typingctx):
    """Hint to the processor that this is a spinning loop: some tens of nanoseconds on x86 and arm64, else nothing."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        _emit_pause(builder)
        return context.get_dummy_value()

    return _void(), codegen


@intrinsic
def call_kernel(typingctx, function, begin, end, args_address):
    """Call the kernel at address ``function``: ``void kernel(int64 begin, int64 end, int64* args)``."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        kernel_type = ir.FunctionType(ir.VoidType(), (_WORD, _WORD, _WORD_POINTER))
        kernel = builder.inttoptr(args[0], kernel_type.as_pointer())
        builder.call(kernel, (args[1], args[2], _pointer(builder, args[3])))
        return context.get_dummy_value()

    return _void(_int64, _int64, _int64, _int64), codegen


@intrinsic
def sched_yield(typingctx):
    """Let another thread that waits for this core run first."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return _call_libc(context, builder, "sched_yield", ())

    return _void(), codegen


def _call_libc(context: TargetContext, builder: ir.IRBuilder, name: str, addresses: Values) -> ir.Value:
    function = _declare(builder, name, _INT, *[_WORD_POINTER] * len(addresses))
    builder.call(function, [_pointer(builder, address) for address in addresses])
    return context.get_dummy_value()


@intrinsic
def lock_mutex(typingctx, mutex):
    """``pthread_mutex_lock``."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return _call_libc(context, builder, "pthread_mutex_lock", args)

    return _void(_int64), codegen


@intrinsic
def unlock_mutex(typingctx, mutex):
    """``pthread_mutex_unlock``."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return _call_libc(context, builder, "pthread_mutex_unlock", args)

    return _void(_int64), codegen


@intrinsic
def wait_condition(typingctx, condition, mutex):
    """``pthread_cond_wait``: release the mutex, sleep until the condition is signalled, take the mutex again."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return _call_libc(context, builder, "pthread_cond_wait", args)

    return _void(_int64, _int64), codegen


@intrinsic
def signal_condition(typingctx, condition):
    """``pthread_cond_signal``: wake one thread that waits."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return _call_libc(context, builder, "pthread_cond_signal", args)

    return _void(_int64), codegen


@intrinsic
def current_cpu(typingctx):
    """The number of the core that this thread runs on; -1 where the system does not say (it does on Linux)."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        if not _LINUX:
            return _WORD(-1)
        return builder.sext(builder.call(_declare(builder, "sched_getcpu", _INT), ()), _WORD)

    return _int64(), codegen


@intrinsic
def current_thread(typingctx):
    """``pthread_self``: the thread as :func:`threading.get_ident` names it."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        return builder.call(_declare(builder, "pthread_self", _WORD), ())

    return _int64(), codegen


@intrinsic
def set_affinity(typingctx, thread, mask_bytes, mask):
    """Linux's ``sched_setaffinity``: let a thread run only on the cores whose bits are set. Elsewhere nothing."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        if _LINUX:
            function = _declare(builder, "sched_setaffinity", _INT, _INT, _WORD, _WORD_POINTER)
            builder.call(function, (builder.trunc(args[0], _INT), args[1], _pointer(builder, args[2])))
        return context.get_dummy_value()

    return _void(_int64, _int64, _int64), codegen


@intrinsic
def nanoseconds(typingctx):
    """The monotonic clock in nanoseconds (``time.monotonic_ns``); costs some tens of nanoseconds."""

    def codegen(context: TargetContext, builder: ir.IRBuilder, sig: Signature, args: Values) -> ir.Value:
        timespec = ir.ArrayType(_WORD, 2)
        moment = cgutils.alloca_once(builder, timespec)
        clock = _declare(builder, "clock_gettime", _INT, _INT, timespec.as_pointer())
        builder.call(clock, (_INT(time.CLOCK_MONOTONIC), moment))
        seconds = builder.extract_value(builder.load(moment), 0)
        rest = builder.extract_value(builder.load(moment), 1)
        return builder.add(builder.mul(seconds, _WORD(_NANOSECONDS)), rest)

    return _int64(), codegen
