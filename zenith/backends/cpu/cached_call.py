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

from zenith.backends.cpu.native_code import native
from zenith.backends.cpu.native_intrinsics import compare_exchange, copy_bytes, load_acquire, load_int32, store_release
from zenith.backends.cpu.python_intrinsics import (
    call_new_from_descr,
    call_object,
    call_on,
    call_scalar,
    clear_error,
    drop_reference,
    has_error,
    integer_value,
    look_at,
    new_reference,
    new_tuple,
    release_gil,
    set_item,
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
    ARRAY_TYPE,
    BLOCKS,
    BUSY,
    BYTES,
    COPIED,
    DESCR,
    DEVICE,
    DIMENSIONS,
    EXPECTED,
    FLAGS,
    FOREIGN,
    FRAME,
    FUNCTION,
    HITS,
    IN_PLACE,
    INTERRUPTED,
    KIND,
    LOOK,
    MADE,
    MISSED,
    NEW_ARRAY,
    NEW_SCALAR,
    NOTHING,
    OBJECT_TYPE,
    ONE,
    ONE_BYTES,
    OTHER_BYTES,
    OTHER_ONE,
    OUTCOME,
    PAIR_BLOCK,
    PAIRS,
    POSITION,
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
    SIZE_NUMBER,
    SOURCE,
    STALE,
    STRIDES,
    SUBJECT,
    TARGET,
    TRIMMED,
    TYPE,
    VIEW,
    VIEW_DATA,
    VIEW_DEVICE,
    VIEW_KIND,
    VIEW_OFFSET,
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
        return _referred(load_acquire(record, 8 * MISSED))
    if load_acquire(record, 8 * STALE) or not _take_all(record, arguments) or not _are_answered(record, arguments):
        store_release(record, 8 * BUSY, 0)
        return 0 if has_error() else _referred(load_acquire(record, 8 * MISSED))
    found, outcome = 0, 0
    if _make_results(record):
        outcome = _run(record)
        if not has_error():
            found = _failed(record, outcome) if outcome else _answer(record, arguments)
    elif not has_error():
        found = _referred(load_acquire(record, 8 * MISSED))
    _drop_results(record)
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


@native
def _referred(object: int) -> int:
    """An object, with one more reference to it."""
    new_reference(object)
    return object


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
        value = _foreign_address(record)
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
def _foreign_address(record: int) -> int:
    """The address of the elements of the array that the view is of."""
    view = load_acquire(record, 8 * VIEW)
    return load_acquire(view, VIEW_DATA) + load_acquire(view, VIEW_OFFSET)


@native
def _are_answered(record: int, arguments: int) -> int:
    """Whether all questions, of arguments and of other objects, have the answers that they had for the cached call.

    An error is that of a mode of the library's, such as an interrupt in it, and is the call's.
    """
    pair = _first_result(record) + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
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


# --- results ---


@native
def _first_result(record: int) -> int:
    return record + 8 * (BLOCKS + ARGUMENT_BLOCK * load_acquire(record, 8 * ARGUMENTS))


@native
def _make_results(record: int) -> int:
    """Give the frame the addresses of results that differ from call to call. 0 where one has no memory."""
    block = _first_result(record)
    end = block + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
    while block < end:
        kind = load_acquire(block, 8 * KIND)
        if kind == IN_PLACE:
            address = load_acquire(load_acquire(block, 8 * SOURCE), 0)
            store_release(load_acquire(block, 8 * TARGET), 0, address)
        if kind <= FOREIGN:
            made = _new_array(record, block) if kind == ARRAY else call_object(load_acquire(block, 8 * DESCR))
            store_release(block, 8 * MADE, made)
            if made == 0:
                return 0
            if kind == FOREIGN and look_at(load_acquire(record, 8 * LOOK), made, load_acquire(record, 8 * VIEW)):
                return 0
            address = load_acquire(made, ARRAY_DATA) if kind == ARRAY else _foreign_address(record)
            if address == 0:
                return 0
            store_release(load_acquire(block, 8 * TARGET), 0, address)
        block += 8 * RESULT_BLOCK
    return 1


@native
def _new_array(record: int, block: int) -> int:
    descr = _referred(load_acquire(block, 8 * DESCR))
    function, type = load_acquire(record, 8 * NEW_ARRAY), load_acquire(record, 8 * ARRAY_TYPE)
    rank, dimensions = load_acquire(block, 8 * RANK), load_acquire(block, 8 * DIMENSIONS)
    return call_new_from_descr(function, type, descr, rank, dimensions)


@native
def _drop_results(record: int) -> None:
    """Free new arrays that nobody has taken."""
    block = _first_result(record)
    end = block + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
    while block < end:
        made = load_acquire(block, 8 * MADE)
        store_release(block, 8 * MADE, 0)
        if made:
            drop_reference(made)
        block += 8 * RESULT_BLOCK


@native
def _answer(record: int, arguments: int) -> int:
    """What the call returns: nothing, the only result, or a tuple of all. 0 where there is no memory."""
    store_release(record, 8 * HITS, load_acquire(record, 8 * HITS) + 1)
    _write_back(record)
    block, count = _first_result(record), load_acquire(record, 8 * RETURNED_RESULTS)
    if not load_acquire(record, 8 * RETURNS_TUPLE):
        return _result(record, block, arguments) if count else _referred(load_acquire(record, 8 * NOTHING))
    found, i = new_tuple(count), 0
    while i < count and found:
        item = _result(record, block + 8 * RESULT_BLOCK * i, arguments)
        if item:
            set_item(found, i, item)
        else:
            drop_reference(found)
            found = 0
        i += 1
    return found


@native
def _write_back(record: int) -> None:
    """Copy results to the arguments that they are written to, where the program has not made them there."""
    block = _first_result(record)
    end = block + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
    while block < end:
        if load_acquire(block, 8 * KIND) == COPIED:
            target, source = load_acquire(load_acquire(block, 8 * SOURCE), 0), load_acquire(block, 8 * TARGET)
            copy_bytes(target, source, load_acquire(block, 8 * BYTES))
        block += 8 * RESULT_BLOCK


@native
def _result(record: int, block: int, arguments: int) -> int:
    """A result: the array that was made, the argument that it is, or the number that the program has stored."""
    kind = load_acquire(block, 8 * KIND)
    if kind <= FOREIGN:
        made = load_acquire(block, 8 * MADE)
        store_release(block, 8 * MADE, 0)
        return made
    if kind == RETURNED:
        return _referred(load_acquire(arguments, load_acquire(block, 8 * SOURCE)))
    if kind == TRIMMED:
        return _trimmed(record, block)
    function, descr = load_acquire(record, 8 * NEW_SCALAR), load_acquire(block, 8 * DESCR)
    return call_scalar(function, load_acquire(block, 8 * TARGET), descr, 0)


@native
def _trimmed(record: int, block: int) -> int:
    """A new array with the elements that a result has in this call. 0 where there is no memory."""
    axes, dimension = load_acquire(block, 8 * SOURCE), load_acquire(block, 8 * DIMENSIONS)
    axis = axes + 8
    end = axis + 16 * load_acquire(axes, 0)
    while axis < end:
        store_release(load_acquire(axis, 0), 0, load_acquire(load_acquire(axis, 8), 0))
        axis += 16
    made, count = _new_array(record, block), load_acquire(block, 8 * BYTES)
    end = dimension + 8 * load_acquire(block, 8 * RANK)
    while dimension < end:
        count *= load_acquire(dimension, 0)
        dimension += 8
    if made:
        copy_bytes(load_acquire(made, ARRAY_DATA), load_acquire(block, 8 * TARGET), count)
    return made


@native
def _failed(record: int, outcome: int) -> int:
    """Have Python raise what made a call end; 0."""
    store_release(record, 8 * OUTCOME, outcome)
    return call_object(load_acquire(record, 8 * REPORT))
