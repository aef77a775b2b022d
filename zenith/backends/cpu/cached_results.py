"""Results of cached calls: new arrays and their addresses in the frame, and what is returned.

The record has a block for each (:mod:`zenith.backends.cpu.cached_call`).
"""

from __future__ import annotations

from zenith.backends.cpu.native_code import native
from zenith.backends.cpu.native_intrinsics import (
    copy_bytes,
    load_acquire,
    load_byte,
    load_float64,
    store_release,
)
from zenith.backends.cpu.python_intrinsics import (
    call_new_from_descr,
    call_object,
    call_on,
    call_scalar,
    drop_reference,
    look_at,
    new_bool,
    new_complex,
    new_float,
    new_int,
    new_reference,
    new_tuple,
    set_item,
)
from zenith.backends.cpu.word_layout import (
    ARGUMENT_BLOCK,
    ARGUMENTS,
    ARRAY,
    ARRAY_DATA,
    ARRAY_TYPE,
    BLOCKS,
    BYTES,
    COPIED,
    DESCR,
    DIMENSIONS,
    FINISH,
    FOREIGN,
    HITS,
    IN_PLACE,
    KIND,
    LOOK,
    MADE,
    NEW_ARRAY,
    NEW_SCALAR,
    NOTHING,
    OUTCOME,
    PYTHON_BOOL,
    PYTHON_COMPLEX,
    PYTHON_FLOAT,
    PYTHON_INT,
    RANK,
    REPORT,
    RESULT_BLOCK,
    RESULTS,
    RETURNED,
    RETURNED_RESULTS,
    RETURNS_TUPLE,
    SOURCE,
    TARGET,
    TRIMMED,
    VIEW,
    VIEW_DATA,
    VIEW_OFFSET,
)


@native
def referred(object: int) -> int:
    """An object, with one more reference to it."""
    new_reference(object)
    return object


@native
def foreign_address(record: int) -> int:
    """The address of the elements of the array that the view is of."""
    view = load_acquire(record, 8 * VIEW)
    return load_acquire(view, VIEW_DATA) + load_acquire(view, VIEW_OFFSET)


@native
def first_result(record: int) -> int:
    """The address of the block of a record's first result."""
    return record + 8 * (BLOCKS + ARGUMENT_BLOCK * load_acquire(record, 8 * ARGUMENTS))


@native
def make_results(record: int) -> int:
    """Give the frame the addresses of results that differ from call to call. 0 where one has no memory."""
    block = first_result(record)
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
            address = load_acquire(made, ARRAY_DATA) if kind == ARRAY else foreign_address(record)
            if address == 0:
                return 0
            store_release(load_acquire(block, 8 * TARGET), 0, address)
        block += 8 * RESULT_BLOCK
    return 1


@native
def _new_array(record: int, block: int) -> int:
    descr = referred(load_acquire(block, 8 * DESCR))
    function, type = load_acquire(record, 8 * NEW_ARRAY), load_acquire(record, 8 * ARRAY_TYPE)
    rank, dimensions = load_acquire(block, 8 * RANK), load_acquire(block, 8 * DIMENSIONS)
    return call_new_from_descr(function, type, descr, rank, dimensions)


@native
def drop_results(record: int) -> None:
    """Free new arrays that nobody has taken."""
    block = first_result(record)
    end = block + 8 * RESULT_BLOCK * load_acquire(record, 8 * RESULTS)
    while block < end:
        made = load_acquire(block, 8 * MADE)
        store_release(block, 8 * MADE, 0)
        if made:
            drop_reference(made)
        block += 8 * RESULT_BLOCK


@native
def answer(record: int, arguments: int) -> int:
    """What the call returns: nothing, the only result, a tuple of all, or what Python makes of that.

    0 where an error is set, for example since there is no memory.
    """
    store_release(record, 8 * HITS, load_acquire(record, 8 * HITS) + 1)
    _write_back(record)
    block, count = first_result(record), load_acquire(record, 8 * RETURNED_RESULTS)
    if not load_acquire(record, 8 * RETURNS_TUPLE):
        return _result(record, block, arguments) if count else referred(load_acquire(record, 8 * NOTHING))
    found, i = new_tuple(count), 0
    while i < count and found:
        item = _result(record, block + 8 * RESULT_BLOCK * i, arguments)
        if item:
            set_item(found, i, item)
        else:
            drop_reference(found)
            found = 0
        i += 1
    return _finished(record, found)


@native
def _finished(record: int, found: int) -> int:
    """The structure that is returned, of a tuple of results."""
    finish = load_acquire(record, 8 * FINISH)
    if finish == 0 or found == 0:
        return found
    made = call_on(finish, found)
    drop_reference(found)
    return made


@native
def _write_back(record: int) -> None:
    """Copy results to the arguments that they are written to, where the program has not made them there."""
    block = first_result(record)
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
        return referred(load_acquire(arguments, load_acquire(block, 8 * SOURCE)))
    if kind == TRIMMED:
        return _trimmed(record, block)
    return _number(record, block, kind)


@native
def _number(record: int, block: int, kind: int) -> int:
    """The number that the program has stored, as Python's own or as NumPy's."""
    stored = load_acquire(block, 8 * TARGET)
    if kind == PYTHON_FLOAT:
        return new_float(load_float64(stored))
    if kind == PYTHON_INT:
        return new_int(load_acquire(stored, 0))
    if kind == PYTHON_BOOL:
        return new_bool(load_byte(stored))
    if kind == PYTHON_COMPLEX:
        return new_complex(load_float64(stored), load_float64(stored + 8))
    return call_scalar(load_acquire(record, 8 * NEW_SCALAR), stored, load_acquire(block, 8 * DESCR), 0)


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
def failed(record: int, outcome: int) -> int:
    """Have Python raise what made a call end; 0."""
    store_release(record, 8 * OUTCOME, outcome)
    return call_object(load_acquire(record, 8 * REPORT))
