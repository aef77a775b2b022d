"""Inline caches: a function's last call as a function of CPython, which answers calls that are like it.

What is cached are calls of numbers, NumPy's arrays and those that their library describes to native code, such as
tensors, and only where the cache needs little memory for itself. Python runs programs that call it between kernels, and
makes what is returned where that is neither one result nor a tuple.
"""

from __future__ import annotations

import ctypes
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from zenith.arrays import NUMPY, Exchange, adapter_for
from zenith.arrays.capsules import pointer
from zenith.backends.backend import MISS, CacheableCall, CachedCall
from zenith.backends.cpu.arenas import ArenaMemory
from zenith.backends.cpu.lease import Lease
from zenith.backends.cpu.native import native
from zenith.backends.cpu.word_layout import (
    ALIGNED,
    ANSWER,
    ARGUMENT_BLOCK,
    ARGUMENTS,
    ARRAY,
    ARRAY_TYPE,
    AXIS_SIZE,
    BLOCKS,
    BYTES,
    C_CONTIGUOUS,
    COPIED,
    DESCR,
    DEVICE,
    DIMENSIONS,
    EXPECTED,
    FINISH,
    FIRST,
    FLAGS,
    FOREIGN,
    FRAME,
    FUNCTION,
    HITS,
    IN_PLACE,
    INTEGER,
    KIND,
    LOOK,
    MISSED,
    NEW_ARRAY,
    NEW_SCALAR,
    NOTHING,
    ONE,
    ONE_BYTES,
    OTHER_BYTES,
    OTHER_ONE,
    OUTCOME,
    PAIR_BLOCK,
    PAIRS,
    POSITION,
    PYTHON_BOOL,
    PYTHON_COMPLEX,
    PYTHON_FLOAT,
    PYTHON_INT,
    QUESTION_BLOCK,
    QUESTIONS,
    RANK,
    REAL,
    REPORT,
    RESULT_BLOCK,
    RESULTS,
    RETURNED,
    RETURNED_RESULTS,
    RETURNS_TUPLE,
    RUNNER,
    SCALAR,
    SIZE_NUMBER,
    SOURCE,
    STALE,
    STRIDES,
    SUBJECT,
    TARGET,
    TRIMMED,
    TYPE,
    VIEW,
    VIEW_BYTES,
    WRITEABLE,
)
from zenith.ir.types import NDArray

if TYPE_CHECKING:
    from zenith.backends.cpu.executable import Executable

MOST_BYTES = 1 << 20  # of an arena and results that are copied, which the cache has for itself
METH_FASTCALL = 0x80
NEW_FROM_DESCR, TO_SCALAR = 94, 60  # where NumPy's table of functions has PyArray_NewFromDescr and PyArray_Scalar
NUMBERS = {float: REAL, np.float64: REAL, int: INTEGER, bool: INTEGER}
OF_PYTHON = {"b": PYTHON_BOOL, "i": PYTHON_INT, "f": PYTHON_FLOAT, "c": PYTHON_COMPLEX}
Words = dict[int, int]


def inline_cache(executable: Executable, call: CacheableCall) -> CachedCall | None:
    """The cache for calls like this one; None where they cannot be cached."""
    if not (is_supported() and all(map(_is_cacheable, call.arguments))):
        return None
    lease, fixed = executable.lease_for(call.sizes, call.results)
    types = [type.dtype.numpy for _, type in executable.program.outputs]
    if not _is_small(lease, types, call) or not _is_in_place(lease, call):
        return None
    for _, _, word, _ in lease.copies:
        lease.buffer[word] = 0  # what is in its place already is not copied
    record = _RecordWriter(lease, call, types).record
    lease.take_arena(ArenaMemory(lease.length))
    report = _reporter(executable, lease, record.ctypes.data)
    record[REPORT] = id(report)
    record.keeps += (executable, lease, fixed, report)
    if not executable.is_one_run:
        runner = partial(executable.run_cached, lease)
        record[RUNNER] = id(runner)
        record.keeps += (runner,)
    when_stale = partial(executable.when_stale, fixed)
    when_stale(partial(_retire, weakref.ref(record)))
    function = _new_function(ctypes.addressof(_definition()), record, None)
    return CachedCall(function, lambda: int(record[HITS]), when_stale)


def _retire(reference: weakref.ref[_Record]) -> None:
    """Answer no further call by a record."""
    record = reference()
    if record is not None:
        record[STALE] = 1


def _is_small(lease: Lease, types: Sequence[np.dtype[Any]], call: CacheableCall) -> bool:
    """Whether little memory stays with the cache, and results have elements."""
    lengths = [prod(shape) * type.itemsize for shape, type in zip(lease.shapes, types, strict=True)]
    own = {*call.written, *call.returned, *call.varying} - set(lease.own)
    return lease.length + sum(lengths[i] for i in own) <= MOST_BYTES and all(lengths)


def _is_in_place(lease: Lease, call: CacheableCall) -> bool:
    """Whether written arguments are arrays, and results take the memory of no others."""
    is_array = all(isinstance(call.arguments[i], np.ndarray) for i in call.written.values())
    return is_array and len(lease.donations) == len(lease.own)


@cache
def is_supported() -> bool:
    """Whether objects are laid out as native code reads them, and a GIL keeps them from changing meanwhile.

    A free-threaded build of CPython may have one too, but only from some moment on.
    """
    return sys.implementation.name == "cpython" and "t" not in getattr(sys, "abiflags", "")


def _is_cacheable(argument: object) -> bool:
    """Whether native code can read an argument, and see whether another one is like it."""
    if type(argument) in NUMBERS:
        return True
    if type(argument) is not np.ndarray:
        exchange = _exchange_of(argument)
        return exchange is not None and all(ask(argument) is answer for ask, answer in exchange.questions(argument))
    is_known = argument.dtype is np.dtype(argument.dtype.type)  # other objects describe foreign orders of bytes
    return is_known and bool(argument.size) and argument.flags.c_contiguous and argument.flags.aligned


def _exchange_of(argument: object) -> Exchange | None:
    """How native code looks at an argument, where it is a dense array of another library in the host's memory."""
    adapter = None if type(argument) in (np.ndarray, *NUMBERS) else adapter_for(argument)
    is_dense = adapter is not None and adapter.on_host and adapter.dense_address(argument)
    return adapter.exchange if adapter is not None and is_dense else None


class _Record(np.ndarray[Any, np.dtype[np.int64]]):
    """A record's words, and what must live as long as somebody may call with them."""

    keeps: tuple[object, ...] = ()


class _RecordWriter:
    """Writes the record of a call that runs in a lease: header, arguments, results, pairs, questions."""

    def __init__(self, lease: Lease, call: CacheableCall, types: Sequence[np.dtype[Any]]) -> None:
        self.lease, self.call, self.keeps = lease, call, [*lease.makers, *types]
        exchanges = {i: _exchange_of(argument) for i, argument in enumerate(call.arguments)}
        self.counts: dict[int, int] = {}
        self.exchanges = {i: exchange for i, exchange in exchanges.items() if exchange is not None}
        arguments = [self._argument(i, argument) for i, argument in enumerate(call.arguments)]
        results = [self._result(i, *of) for i, of in enumerate(zip(lease.shapes, types, strict=True))]
        pairs, questions = self._pairs(), self._questions()
        parts = [
            (BLOCKS, [self._header(len(types), len(pairs), len(questions))]), (ARGUMENT_BLOCK, arguments),
            (RESULT_BLOCK, results), (PAIR_BLOCK, pairs), (QUESTION_BLOCK, questions),
        ]  # fmt: skip
        words = [words.get(i, 0) for length, blocks in parts for words in blocks for i in range(length)]
        self.record = np.array(words, np.int64).view(_Record)
        self.record.keeps = (*self.keeps, self.call.finish)

    def _header(self, results: int, pairs: int, questions: int) -> Words:
        call = self.call
        looks = {exchange.look for exchange in (call.results.exchange, *self.exchanges.values()) if exchange}
        assert len(looks) <= 1, "foreign arrays of a call are of one library"
        return {
            FRAME: self.lease.address, ARGUMENTS: len(call.arguments), RESULTS: results, PAIRS: pairs,
            RETURNED_RESULTS: results - len(call.written) - len(call.counts), RETURNS_TUPLE: call.returns_tuple,
            MISSED: id(MISS), NOTHING: id(None), ARRAY_TYPE: id(np.ndarray), QUESTIONS: questions,
            NEW_ARRAY: _numpy_function(NEW_FROM_DESCR), NEW_SCALAR: _numpy_function(TO_SCALAR),
            FINISH: 0 if call.finish is None else id(call.finish), LOOK: max(looks, default=0),
            VIEW: self._stored(*[0] * (VIEW_BYTES // 8)),
        }  # fmt: skip

    def _pairs(self) -> list[Words]:
        """Arguments that are written, with those that they must not overlap."""
        arguments: Sequence[Any] = self.call.arguments
        arrays = {i: a.nbytes for i, a in enumerate(arguments) if type(a) not in NUMBERS}
        written = set(self.call.written.values())
        return [
            {ONE: self._word(i), OTHER_ONE: self._word(j), ONE_BYTES: arrays[i], OTHER_BYTES: arrays[j]}
            for i in written for j in arrays if i != j and not (j in written and j < i)
        ]  # fmt: skip

    def _questions(self) -> list[Words]:
        """What is asked of foreign arguments and their library. What is asked, and its answers, live as the record."""
        arguments = self.call.arguments
        asked = [(ask, 8 * i, answer) for i, of in self.exchanges.items() for ask, answer in of.questions(arguments[i])]
        conditions = {id(c): c for of in self.exchanges.values() for c in of.conditions}.values()
        self.keeps += [asked, conditions]
        found = [{FUNCTION: id(ask), POSITION: position, ANSWER: id(answer)} for ask, position, answer in asked]
        found += [{FUNCTION: id(ask), SUBJECT: id(about), ANSWER: id(answer)} for ask, about, answer in conditions]
        return found

    def _word(self, number: int) -> int:
        """The address of the frame's word for the address of an argument, or a result, which follow these."""
        return self.lease.address + 8 * (FIRST + number)

    def _stored(self, *values: int) -> int:
        """The address of words with some values, which live as long as the record."""
        words = np.array(values or [0], np.int64)
        self.keeps.append(words)
        return int(words.ctypes.data)

    def _argument(self, number: int, argument: Any) -> Words:
        call, words = self.call, {TYPE: id(type(argument))}
        if type(argument) is np.ndarray:
            flags = C_CONTIGUOUS | ALIGNED | (WRITEABLE if number in call.written.values() else 0)
            return words | self._array(number, argument.shape, argument.dtype) | {FLAGS: flags}
        if number in self.exchanges:
            return words | self._foreign(number, argument, self.exchanges[number])
        cell = self.lease.buffer[FIRST + number] = self._stored(0)
        if number in call.size_numbers:
            return words | {KIND: SIZE_NUMBER, TARGET: cell, EXPECTED: int(argument)}
        return words | {KIND: NUMBERS[type(argument)], TARGET: cell}

    def _result(self, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Words:
        call, after = self.call, len(self.call.arguments) + number
        if number in call.varying:
            return self._trimmed(number, after, shape, dtype)
        if number in call.counts:
            return {KIND: AXIS_SIZE, TARGET: self._count(number)}
        if number in self.lease.own:
            return {KIND: IN_PLACE, TARGET: self._word(after), SOURCE: self._word(call.written[number])}
        if number in call.written or number in call.returned:
            own = self._own(after, shape, dtype)
            if number in call.returned:  # nobody reads what the program stores
                return {KIND: RETURNED, SOURCE: 8 * call.returned[number]}
            source = self._word(call.written[number])
            return {KIND: COPIED, TARGET: own.ctypes.data, SOURCE: source, BYTES: own.nbytes}
        if number in call.of_python:
            cell = self.lease.buffer[FIRST + after] = self._stored(0, 0)
            return {KIND: OF_PYTHON[dtype.kind], TARGET: cell}
        if number in call.numbers:
            cell = self.lease.buffer[FIRST + after] = self._stored(0, 0)  # as long as a complex number
            return {KIND: SCALAR, TARGET: cell, DESCR: id(dtype)}
        if call.results is not NUMPY:
            return {KIND: FOREIGN, TARGET: self._word(after), DESCR: id(self.lease.makers[number])}
        return self._array(after, shape, dtype)

    def _own(self, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray:
        """Memory of the record's own for a result."""
        own = np.empty(shape, dtype)
        self.keeps.append(own)
        self.lease.buffer[FIRST + number] = own.ctypes.data
        return own

    def _count(self, number: int) -> int:
        """Where a number is stored that is the size of an axis."""
        if number not in self.counts:
            self.counts[number] = self.lease.buffer[FIRST + len(self.call.arguments) + number] = self._stored(0)
        return self.counts[number]

    def _trimmed(self, number: int, after: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Words:
        """An array of which as many elements are copied to the result as it has in a call."""
        own, dimensions = self._own(after, shape, dtype), self._stored(*shape)
        axes = [word for a in self.call.varying[number] for word in (dimensions + 8 * a.axis, self._count(a.result))]
        return {
            KIND: TRIMMED, TARGET: own.ctypes.data, DESCR: id(dtype), RANK: len(shape), DIMENSIONS: dimensions,
            SOURCE: self._stored(len(axes) // 2, *axes), BYTES: dtype.itemsize,
        }  # fmt: skip

    def _array(self, number: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Words:
        dimensions = self._stored(*shape)
        return {KIND: ARRAY, TARGET: self._word(number), DESCR: id(dtype), RANK: len(shape), DIMENSIONS: dimensions}

    def _foreign(self, number: int, argument: Any, exchange: Exchange) -> Words:
        device, kind, sizes, strides = exchange.words(argument)
        return {
            KIND: FOREIGN, TARGET: self._word(number), DEVICE: device, DESCR: kind, RANK: len(sizes),
            DIMENSIONS: self._stored(*sizes), STRIDES: self._stored(*strides),
        }  # fmt: skip


def _reporter(executable: Executable, lease: Lease, record: int) -> Callable[[], NoReturn]:
    """What raises the error of a call that has not gone well."""

    def report() -> NoReturn:
        error = executable.error_of(lease, ctypes.c_int64.from_address(record + 8 * OUTCOME).value)
        assert error is not None
        raise error

    return report


class _Definition(ctypes.Structure):
    """``PyMethodDef``."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


@cache
def _definition() -> _Definition:
    """The one definition of all cached calls: they differ in their ``self``."""
    return _Definition(b"cached_call", native().cached_call, METH_FASTCALL, None)


_new_function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


@cache
def _numpy_function(number: int) -> int:
    """The address of a function of NumPy's C API, by its position in the table that extension modules import."""
    table = pointer(import_module("numpy._core._multiarray_umath")._ARRAY_API, None)
    address = ctypes.c_void_p.from_address(table + 8 * number).value
    assert address is not None
    return address
