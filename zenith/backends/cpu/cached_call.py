"""Cached calls: the native half of an inline cache, which repeats a function's last call with other values.

``cached_call`` is a ``METH_FASTCALL`` function of CPython. Its ``self`` is an array of words, the record that
:mod:`zenith.backends.cpu.inline_cache` makes: what the arguments were like, where in a frame their addresses are, and
what the results are. Arguments that are like those run at once: nothing is bound, sized or allocated but the results.
For all others, and while another thread has the record, the answer is the object for a miss, and Python takes the call.
Arrays are NumPy's, or *foreign*: those of a library whose C function describes them (:mod:`zenith.arrays.exchange`).

The idea is that of Deutsch and Schiffman's caches at call sites ("Efficient Implementation of the Smalltalk-80 System",
POPL 1984), with shapes in the place of classes.
"""

from __future__ import annotations

from zenith.backends.cpu.cached_results import (
    answer,
    drop_results,
    failed,
    first_result,
    foreign_address,
    make_results,
    referred,
)
from zenith.backends.cpu.native_code import native
from zenith.backends.cpu.native_intrinsics import (
    compare_exchange,
    load_acquire,
    load_int32,
    store_release,
)
from zenith.backends.cpu.python_intrinsics import (
    call_object,
    call_on,
    clear_error,
    drop_reference,
    has_error,
    integer_value,
    look_at,
    release_gil,
    take_gil,
)
from zenith.backends.cpu.running import run_program
from zenith.backends.cpu.word_layout import (
    ANSWER,
    ARGUMENT_BLOCK,
    ARGUMENTS,
    ARRAY,
    ARRAY_DATA,
    ARRAY_DESCR,
    ARRAY_DIMENSIONS,
    ARRAY_FLAGS,
    ARRAY_RANK,
    BLOCKS,
    BUSY,
    DESCR,
    DEVICE,
    DIMENSIONS,
    EXPECTED,
    FLAGS,
    FOREIGN,
    FRAME,
    FUNCTION,
    INTERRUPTED,
    KIND,
    LOOK,
    MISSED,
    OBJECT_TYPE,
    ONE,
    ONE_BYTES,
    OTHER_BYTES,
    OTHER_ONE,
    PAIR_BLOCK,
    PAIRS,
    POSITION,
    QUESTION_BLOCK,
    QUESTIONS,
    RANK,
    REAL,
    RESULT_BLOCK,
    RESULTS,
    RUNNER,
    SIZE_NUMBER,
    STALE,
    STRIDES,
    SUBJECT,
    TARGET,
    TYPE,
    VIEW,
    VIEW_DEVICE,
    VIEW_KIND,
    VIEW_SIZES,
    VIEW_STRIDES,
)


@native
def cached_call(own: int, arguments: int, count: int) -> int:
    """The result of a call with ``count`` arguments at an address; ``own`` is the array that has the record.

    0 where an error is set: there is no memory, a check has failed, or a signal's handler has raised.
    """
    record = load_acquire(own, ARRAY_DATA)
    if count != load_acquire(record, 8 * ARGUMENTS) or not compare_exchange(record, 8 * BUSY, 0, 1):
        return referred(load_acquire(record, 8 * MISSED))
    if load_acquire(record, 8 * STALE) or not _take_all(record, arguments) or not _are_answered(record, arguments):
        store_release(record, 8 * BUSY, 0)
        return 0 if has_error() else referred(load_acquire(record, 8 * MISSED))
    found, outcome = 0, 0
    if make_results(record):
        outcome = _run(record)
        if not has_error():
            found = failed(record, outcome) if outcome else answer(record, arguments)
    elif not has_error():
        found = referred(load_acquire(record, 8 * MISSED))
    drop_results(record)
    if outcome != INTERRUPTED:  # what an interrupted frame's status words say is not known: the record stays busy
        store_release(record, 8 * BUSY, 0)
    return found


@native
def _run(record: int) -> int:
    """How the program's run went; an error is set where Python runs it, since it has calls, and one has raised."""
    runner = load_acquire(record, 8 * RUNNER)
    if runner:
        went = call_object(runner)
        if went == 0:
            return 0
        outcome = integer_value(went)
        drop_reference(went)
        return outcome
    state = release_gil()
    outcome = run_program(load_acquire(record, 8 * FRAME))
    take_gil(state)
    return outcome


# --- arguments ---


@native
def _take_all(record: int, arguments: int) -> int:
    """Whether all arguments are like those of the cached call, and their addresses or values where the frame has them.

    None may overlap one that is written.
    """
    block, argument = record + 8 * BLOCKS, arguments
    end = argument + 8 * load_acquire(record, 8 * ARGUMENTS)
    while argument < end:
        if not _take(record, block, load_acquire(argument, 0)):
            return 0
        argument += 8
        block += 8 * ARGUMENT_BLOCK
    pair = block + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
    end = pair + 8 * PAIR_BLOCK * load_acquire(record, 8 * PAIRS)
    while pair < end:
        one = load_acquire(load_acquire(pair, 8 * ONE), 0)
        other = load_acquire(load_acquire(pair, 8 * OTHER_ONE), 0)
        if one < other + load_acquire(pair, 8 * OTHER_BYTES) and other < one + load_acquire(pair, 8 * ONE_BYTES):
            return 0
        pair += 8 * PAIR_BLOCK
    return 1


@native
def _take(record: int, block: int, argument: int) -> int:
    """Whether an argument is like that of the cached call; if so, its address or value is where the frame has it."""
    if load_acquire(argument, OBJECT_TYPE) != load_acquire(block, 8 * TYPE):
        return 0
    kind = load_acquire(block, 8 * KIND)
    value = load_acquire(argument, ARRAY_DATA)  # a float's value is where an array has its address
    if kind == ARRAY:
        if not _is_alike(block, argument):
            return 0
    elif kind == FOREIGN:
        if not _is_foreign_alike(record, block, argument):
            return 0
        value = foreign_address(record)
        if value == 0:
            return 0
    elif kind != REAL:
        value = integer_value(argument)
        if value == -1 and has_error():
            clear_error()
            return 0
        if kind == SIZE_NUMBER and value != load_acquire(block, 8 * EXPECTED):
            return 0
    store_release(load_acquire(block, 8 * TARGET), 0, value)
    return 1


@native
def _is_alike(block: int, array: int) -> int:
    """Whether an array has the element type and the shape of the cached call's, and the flags that it must have."""
    if load_acquire(array, ARRAY_DESCR) != load_acquire(block, 8 * DESCR):
        return 0
    rank = load_acquire(block, 8 * RANK)
    if load_int32(array + ARRAY_RANK) != rank:
        return 0
    flags = load_acquire(block, 8 * FLAGS)
    if load_int32(array + ARRAY_FLAGS) & flags != flags:
        return 0
    return _are_equal(load_acquire(array, ARRAY_DIMENSIONS), load_acquire(block, 8 * DIMENSIONS), rank)


@native
def _are_equal(words: int, expected: int, count: int) -> int:
    """Whether so many words are the same at two addresses."""
    end = words + 8 * count
    while words < end:
        if load_acquire(words, 0) != load_acquire(expected, 0):
            return 0
        words += 8
        expected += 8
    return 1


@native
def _is_foreign_alike(record: int, block: int, array: int) -> int:
    """Whether a foreign array has the device, the element type, the shape and the strides of the cached call's.

    The view is of this array afterwards.
    """
    view, rank = load_acquire(record, 8 * VIEW), load_acquire(block, 8 * RANK)
    if look_at(load_acquire(record, 8 * LOOK), array, view):
        clear_error()
        return 0
    if load_acquire(view, VIEW_DEVICE) != load_acquire(block, 8 * DEVICE):
        return 0
    if load_acquire(view, VIEW_KIND) != load_acquire(block, 8 * DESCR):
        return 0
    if not _are_equal(load_acquire(view, VIEW_SIZES), load_acquire(block, 8 * DIMENSIONS), rank):
        return 0
    return _are_equal(load_acquire(view, VIEW_STRIDES), load_acquire(block, 8 * STRIDES), rank)


@native
def _are_answered(record: int, arguments: int) -> int:
    """Whether all questions, of arguments and of other objects, have the answers that they had for the cached call.

    An error is that of a mode of the library's, such as an interrupt in it, and is the call's.
    """
    pair = first_result(record) + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
    question = pair + 8 * PAIR_BLOCK * load_acquire(record, 8 * PAIRS)
    end = question + 8 * QUESTION_BLOCK * load_acquire(record, 8 * QUESTIONS)
    while question < end:
        subject = load_acquire(question, 8 * SUBJECT)
        if subject == 0:
            subject = load_acquire(arguments, load_acquire(question, 8 * POSITION))
        answer = call_on(load_acquire(question, 8 * FUNCTION), subject)
        if answer == 0:
            return 0
        drop_reference(answer)
        if answer != load_acquire(question, 8 * ANSWER):
            return 0
        question += 8 * QUESTION_BLOCK
    return 1
