"""A sorting network for many short rows, of which only the elements are asked for: a vector has an element of each.

A task takes as many rows as a cache line has elements, and sorts them at once: a comparator is a minimum and a maximum
of two vectors, without a branch, and comparators do not depend on elements. Runs of eight are sorted in registers, then
merged two by two by a bitonic network whose first level compares a run with the mirror image of its neighbour, so that
a row's end may be missing (Batcher, "Sorting networks and their applications", AFIPS 1968); three levels of a merge are
computed for each load and store.

What is compared are integers, for networks are not stable: a zero has its position in its integer, since 0.0 and -0.0
are equal and keep their order. Infinities and numbers leave room for that below nan, which has one integer for all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from zenith.backends.expressions import Apply, Expr, Load, Position
from zenith.backends.kernel import Kernel, Let, Scratch, Store, UserCode
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import bind
from zenith.backends.lower.order.radix_sort import Sorting, one_if_above
from zenith.backends.lower.order.written import renamed
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.types import BY_NAME, DType, float32

LINE = 64  # bytes of a vector
MOST = 1 << 11  # elements of a row, a power of two: the vectors of some are in the second level of the cache at most
NEAR = 1 << 8  # elements that are sorted first: their vectors are in the first level
FEW = 3  # rows that are sorted one by one: most of a vector would have none
COST = 16  # operations of an element, about
_NAMES = ("padded", "count", "width", "levels", "first", "step", "base", "last", "bits", "size", "zero", "word", "key",
          "words", "square", "even", "zeros", "moved", "near", "part", "low", "high", "i", "at", "lane")  # fmt: skip

NETWORK = """\
padded = 8
while padded < count:
    padded = 2 * padded
for i in range(LANES * count, LANES * padded):
    words[i] = WORD(LAST)
for i in range(0, count, 8):
    sort_words(LANES, words, i)
near = (count + NEAR - 1) // NEAR
for part in range(0, near + 1):
    is_part = part < near
    low = NEAR * part if is_part else i64(0)
    high = min(low + NEAR, count) if is_part else count
    width = i64(16) if is_part else i64(2 * NEAR)
    levels = 4 if is_part else LEVELS + 1
    while width <= (min(NEAR, padded) if is_part else padded):
        first = (levels - 1) % 3 + 1
        step = width >> first
        for base in range(low, high - width // 2, width):
            last = 2 * base + width - 1
            if first == 1:
                for i in range(base, base + step):
                    merge_words(LANES, 2, 1, words, i, last - i, step)
            elif first == 2:
                for i in range(base, base + step):
                    merge_words(LANES, 4, 1, words, i, last - i, step)
            else:
                for i in range(base, base + step):
                    merge_words(LANES, 8, 1, words, i, last - i, step)
        while step > 1:
            step = step >> 3
            for base in range(low, high, 8 * step):
                for i in range(base, base + step):
                    merge_words(LANES, 8, 0, words, i, i + 7 * step, step)
        width = 2 * width
        levels = levels + 1"""
TO_WORDS = """\
zeros = WORD(0)
for i in range(0, LANES * count):
    bits = words[i]
    size = WORD(bits & LAST)
    zeros = WORD(zeros | where(size == 0, WORD(1), WORD(0)))
    bits = where(size > INFINITY, WORD(NAN), bits)
    words[i] = where(bits < 0, WORD(bits ^ LAST), bits)
if zeros != 0:
    for at in range(0, count):
        even = WORD(2 * POSITION)
        for lane in range(0, LANES):
            word = words[at * LANES + lane]
            zero = (word == 0) | (word == -1)
            moved = where(word > 0, WORD(word + ZEROS), word)
            words[at * LANES + lane] = where(zero, WORD(even + (word & 1)), moved)"""
TO_BITS = """\
if zeros != 0:
    for i in range(0, LANES * count):
        word = words[i]
        moved = where(word >= ZEROS, WORD(word - ZEROS), word)
        words[i] = where((word >= 0) & (word < ZEROS), WORD(-(word & 1)), moved)
for i in range(0, LANES * count):
    word = words[i]
    words[i] = where(word < 0, WORD(word ^ LAST), word)"""
MIRROR = """\
for i in range(0, LANES * count):
    words[i] = WORD(~words[i])"""


def wanted_networks(s: Sorting) -> Dim:
    """1 where rows are short and many enough, and nobody asks for indices, else 0."""
    if s.output(1) is not None:
        return dim(0)
    return (1 - one_if_above(s.size, MOST)) * one_if_above(s.rows, FEW)


def sort_batches(s: Sorting, wanted: Dim) -> Kernel:
    """The kernel whose tasks are batches of rows, where ``wanted`` is 1; none where it is 0."""
    e = s.builder()
    batch = _Batch.of(s, e)
    tasks = quotient_up(s.rows, batch.lanes) * wanted
    with task_loop(e, tasks, "batch") as number:
        begin = bind(e, "begin", number * batch.lanes)
        live = bind(e, "live", minimum(s.rows - begin, batch.lanes))
        e.append(Let(batch.names["count"], Position(s.size)))
        _load(s, e, batch, begin, live)
        for text in (*batch.before, NETWORK, *batch.after):
            e.append(batch.source(text))
        _store(s, e, batch, begin, live)
    longest = max(8, batch.lanes, 1 << (min(s.size.static or MOST, MOST) - 1).bit_length())
    own = [Scratch(batch.names[name], batch.word, batch.lanes * length)
           for name, length in (("words", longest), ("square", batch.lanes))]  # fmt: skip
    return Kernel("kernel", s.face.doc(), s.face.buffers, s.face.symbols, tasks, s.size * (batch.lanes * COST),
                  (*own, *e.close()), operations=s.operations * wanted)  # fmt: skip


def _load(s: Sorting, e: ElementBuilder, batch: _Batch, begin: Dim, live: Dim) -> None:
    """Elements of ``live`` rows become words of as many lanes, a square at a time."""
    for first, length in _squares(s, e, batch):
        with loop(e, "lane", 0, live) as lane:
            row = bind(e, "row", begin + lane)
            with loop(e, "at", 0, length) as at:
                element = e.element(s.x, (*decode(row, s.x.shape[:-1]), first + at))
                bits = e.let(Apply("x", (element,), batch.key))
                if batch.key.is_float:
                    bits = e.let(Apply("float_bits(x)", (bits,), batch.word))
                e.append(Store(batch.names["square"], lane * batch.lanes + at, bits))
        e.append(batch.source(f"transpose_words(LANES, square, 0, words, {first})"))


def _store(s: Sorting, e: ElementBuilder, batch: _Batch, begin: Dim, live: Dim) -> None:
    """Words become elements again."""
    (values,) = s.face.outputs
    for first, length in _squares(s, e, batch):
        e.append(batch.source(f"transpose_words(LANES, words, {first}, square, 0)"))
        with loop(e, "lane", 0, live) as lane:
            row = bind(e, "row", begin + lane)
            with loop(e, "at", 0, length) as at:
                bits: Expr = Load(batch.names["square"], lane * batch.lanes + at, batch.word)
                if batch.key.is_float:
                    bits = Apply("bits_float(x)", (bits,), batch.key)
                e.append(Store(values, row * s.size + first + at, Apply("x", (bits,), s.x.dtype)))


def _squares(s: Sorting, e: ElementBuilder, batch: _Batch) -> Iterator[tuple[Dim, Dim]]:
    """Loops over the squares of a batch: their first position, and how many of their positions are in rows."""
    whole, lanes = s.size // batch.lanes, batch.lanes
    for start, stop in ((dim(0), whole), (whole, quotient_up(s.size, lanes))):
        if stop - start != 0:
            with loop(e, "number", start, stop) as number:
                first = bind(e, "position", number * lanes)
                yield first, dim(lanes) if start == 0 and whole != 0 else s.size - first


@dataclass(frozen=True, slots=True)
class _Batch:
    """How rows are words: what elements are converted to, the words' type, lanes, and names in written statements."""

    key: DType
    word: DType
    lanes: int
    descending: bool
    names: Mapping[str, str]

    @staticmethod
    def of(s: Sorting, e: ElementBuilder) -> _Batch:
        key = float32 if s.keys.dtype.is_float and s.keys.dtype.itemsize < float32.itemsize else s.keys.dtype
        word = BY_NAME[f"i{8 * key.itemsize}"] if key.is_float else key
        return _Batch(key, word, LINE // word.itemsize, s.descending, {name: e.fresh(name) for name in _NAMES})

    @property
    def before(self) -> list[str]:
        """What makes words of numbers that order as the elements do."""
        return [TO_WORDS] * self.key.is_float + [MIRROR] * self.descending

    @property
    def after(self) -> list[str]:
        """What undoes it."""
        return [MIRROR] * self.descending + [TO_BITS] * self.key.is_float

    def source(self, text: str) -> UserCode:
        """Written statements with this kernel's names and numbers."""
        numbers: dict[str, int | str] = {
            "LANES": self.lanes, "LAST": int(np.iinfo(self.word.numpy_name).max), "WORD": self.word.name,
            "NEAR": NEAR, "LEVELS": NEAR.bit_length() - 1, "ZEROS": 2 * MOST,
            "POSITION": f"({MOST - 1} - at)" if self.descending else "at",
        }  # fmt: skip
        if self.key.is_float:
            infinity, nan = (int(np.array(x, self.key.numpy_name).view(self.word.numpy_name)) for x in (np.inf, np.nan))
            numbers |= {"INFINITY": infinity, "NAN": nan}
        text = re.sub(r"\b[A-Z]+\b", lambda found: str(numbers[found.group()]), text)
        buffers = [self.names[name] for name in ("words", "square") if re.search(rf"\b{name}\b", text)]
        return UserCode(renamed(text, self.names), tuple(buffers))
