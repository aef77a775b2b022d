"""What sorting networks share: elements as words, which are integers that order as elements do, and written merges.

Networks are not stable, so equal words must be equal results. 0.0 and -0.0 are equal elements, but not the same, and
keep their order: a zero's word has its position, for which the words of what is negative leave room. All nans have one
word. Where indices are asked for, every word has its element's position in its lower half.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zenith.backends.expressions import Apply, Expr, Name, Position
from zenith.backends.kernel import Let, Scratch, Store, UserCode
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.order.sorting import Sorting
from zenith.backends.lower.order.written import indented, renamed
from zenith.ir.dims import Dim, symbol
from zenith.ir.types import BY_NAME, DType, float32, int64

LINE = 64  # bytes of a vector
INDEX = 32  # bits of an index in a word

# The next levels of bitonic merges, three for each load and store, down to vectors that are ``unit`` apart.
DESCENT = """\
while step > unit:
    step = step >> 3
    for base in range(low, high, 8 * step):
        merge_words(LANES, 8, 0, words, base, base + 7 * step, step, step)"""


def _first_levels(mirrored: int, last: str) -> str:
    """The first levels of merges: one, two or three, so that all others come by three."""
    merges = (f"merge_words(LANES, {1 << n}, {mirrored}, words, base, {last.format((1 << n) - 1)}, step, step)"
              for n in (1, 2, 3))  # fmt: skip
    return "if first == 1:\n    {}\nelif first == 2:\n    {}\nelse:\n    {}".format(*merges)


# All levels of bitonic merges whose vectors are ``span``.
BITONIC = f"""\
first = (levels - 1) % 3 + 1
step = span >> first
for base in range(low, high, span):
{indented(_first_levels(0, "base + {} * step"))}
{DESCENT}"""


def ascending(mirrored: int) -> str:
    """The first levels of merges of runs of ``width / 2`` vectors that ascend, in each lane or through all of them."""
    return f"""\
first = (levels - 1) % 3 + 1
step = width >> first
for base in range(low, high - width // 2, width):
{indented(_first_levels(mirrored, "base + width - 1"))}"""


# Runs of ``width / 2`` vectors, each lane by itself, are merged until they have ``most``.
COLUMNS = f"""\
while width <= most:
{indented(ascending(1))}
    unit = 1
{indented(DESCENT)}
    width = 2 * width
    levels = levels + 1"""


def fits_in_words(s: Sorting) -> bool:
    """Whether one integer for each element is enough: nobody asks for indices, or there is room for them."""
    return s.output(1) is None or _compared(s).itemsize <= INDEX // 8


def most_positions(s: Sorting) -> int:
    """How many positions a word has room for: of float32 numbers, half of the integers below those of all numbers."""
    has_zeros = s.output(1) is None and _compared(s) == float32
    return (1 << 22) - 1 if has_zeros else (1 << INDEX) - 1


def _compared(s: Sorting) -> DType:
    """The type of the numbers that are compared: float32 for narrower ones."""
    return float32 if s.key.is_float and s.key.itemsize < float32.itemsize else s.key


@dataclass(frozen=True, slots=True)
class Words:
    """What elements are converted to, the words' type, that of elements, and how many positions there are."""

    key: DType
    word: DType
    element: DType
    descending: bool
    most: int

    @staticmethod
    def of(s: Sorting, most: int) -> Words:
        """The words of a sort, whose rows have at most so many elements."""
        key = _compared(s)
        if s.output(1) is not None:
            return IndexWords(key, int64, s.x.dtype, s.descending, most)
        word = BY_NAME[f"i{8 * key.itemsize}"] if key.is_float else key
        return Words(key, word, s.x.dtype, s.descending, most)

    @property
    def lanes(self) -> int:
        """How many words a vector has."""
        return LINE // self.word.itemsize

    def bits(self, element: Expr) -> Expr:
        """An element as it waits for its word: its bits."""
        key = Apply("x", (element,), self.key)
        return Apply("float_bits(x)" if self.key.is_float else "x", (key,), self.word)

    def encode(self, e: ElementBuilder, bits: Expr, position: Dim) -> Expr:
        """The word of a row's element at a position, from its bits. That of a zero has its sign in its last bit."""
        word = bits
        if self.key.is_float:
            order = self._let(e, "WORD(ordered(bits_float(x))) ^ WORD(SIGN)", bits)
            at = self._let(e, "x", Position(self.most - 1 - position if self.descending else position))
            zero = self._let(e, "x + x + where(y < 0, WORD(1 - ROOM), WORD(-ROOM))", at, bits)
            word = self._let(e, "where(x < 0, WORD(x - ROOM), where(x == 0, y, x))", order, zero)
        return self._let(e, "~x", word) if self.descending else word

    def decode(self, e: ElementBuilder, word: Expr) -> Expr:
        """The element of a word."""
        word = self._let(e, "~x" if self.descending else "x", word)
        if self.key.is_float:
            zero = self._let(e, "where((x & 1) == 0, WORD(0), WORD(SIGN))", word)
            other = self._let(e, "where(x < 0, WORD((x + ROOM) ^ LAST), x)", word)
            number = self._let(e, "where(x == LAST, WORD(NAN), x)", other)
            bits = self._let(e, "where((x < 0) & (x >= -ROOM), y, z)", word, zero, number)
            word = e.let(Apply("bits_float(x)", (bits,), self.key))
        return Apply("x", (word,), self.element)

    def store(self, s: Sorting, e: ElementBuilder, row: Dim, at: Dim, word: Expr) -> None:
        """Store what is asked for of a word, at a position of a sorted row."""
        (output,) = s.face.outputs
        e.append(Store(output, row * s.size + at, self.decode(e, e.let(word))))

    def numbered(self, text: str, **numbers: int) -> str:
        """A text with these numbers in place of words in capitals, and with LAST, which no other word follows."""
        width = 8 * self.word.itemsize
        every = {"LANES": self.lanes, "WORD": self.word.name, "LAST": int(np.iinfo(self.word.numpy_name).max),
                 "SIGN": -(1 << (width - 1)), "ROOM": 2 * self.most, "NAN": self._nan(), **numbers}  # fmt: skip
        return re.sub(r"\b[A-Z]+\b", lambda found: str(every[found.group()]), text)

    def _nan(self) -> int:
        return int(np.array(np.nan, self.key.numpy_name).view(f"i{self.key.itemsize}")) if self.key.is_float else 0

    def _let(self, e: ElementBuilder, text: str, *args: Expr) -> Expr:
        """A step of a conversion."""
        return e.let(Apply(self.numbered(text), args, self.word))


class IndexWords(Words):
    """Those that have an index: 32 bits of the element, then as many of its position. Zeros are equal."""

    __slots__ = ()

    def bits(self, element: Expr) -> Expr:
        return Apply("ordered(x)", (Apply("x", (element,), self.key),), self.word)

    def encode(self, e: ElementBuilder, bits: Expr, position: Dim) -> Expr:
        order = self._let(e, f"{1 << INDEX} - 1 - x" if self.descending else "x", bits)
        return self._let(e, f"((x - {1 << (INDEX - 1)}) << {INDEX}) + y", order, Position(position))

    def store(self, s: Sorting, e: ElementBuilder, row: Dim, at: Dim, word: Expr) -> None:
        index = e.fresh("index")
        e.append(Let(index, self._let(e, f"x & {(1 << INDEX) - 1}", word)))
        e.level_of[index] = len(e.levels) - 1
        values, indices = s.output(0), s.output(1)
        if indices is not None:
            e.append(Store(indices, row * s.size + at, Name(index, int64)))
        if values is not None:
            element = e.element(s.x, (*decode(row, s.x.shape[:-1]), symbol(index)))
            e.append(Store(values, row * s.size + at, element))


@dataclass(frozen=True, slots=True)
class NetworkWriter:
    """Writes a network's statements, which have names of their own in the kernel; two are buffers of words."""

    s: Sorting
    e: ElementBuilder
    words: Words
    names: Mapping[str, str]

    def append(self, text: str, **numbers: int) -> None:
        """Append written statements."""
        text = self.words.numbered(text, **numbers)
        buffers = [self.names[name] for name in ("words", "square") if re.search(rf"\b{name}\b", text)]
        self.e.append(UserCode(renamed(text, self.names), tuple(buffers)))

    def element(self, row: Dim, at: Dim) -> Expr:
        """The bits of a row's element."""
        return self.words.bits(self.e.element(self.s.x, (*decode(row, self.s.x.shape[:-1]), at)))

    def scratch(self, name: str, length: int) -> Scratch:
        """One of the buffers, as the kernel's own."""
        return Scratch(self.names[name], self.words.word, length)
