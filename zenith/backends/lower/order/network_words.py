"""What sorting networks share: elements as words, which are integers that order as elements do, and written merges.

Networks are not stable, so equal words must be equal results. 0.0 and -0.0 are equal elements, but not the same, and
keep their order: a zero's word has its position, for which the words of what is positive leave room. All nans have one
word. Where indices are asked for, every word has its element's position in its lower half.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zenith.backends.expressions import Apply, Expr, Name, Position
from zenith.backends.kernel import Let, Store, UserCode
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.order.radix_sort import Sorting
from zenith.backends.lower.order.written import renamed
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
# All levels of those whose vectors are ``span``.
BITONIC = f"""\
first = (levels - 1) % 3 + 1
step = span >> first
for base in range(low, high, span):
    if first == 1:
        merge_words(LANES, 2, 0, words, base, base + step, step, step)
    elif first == 2:
        merge_words(LANES, 4, 0, words, base, base + 3 * step, step, step)
    else:
        merge_words(LANES, 8, 0, words, base, base + 7 * step, step, step)
{DESCENT}"""
# The first levels of a merge of runs that ascend: one, two or three, so that all others come by three.
ASCENDING = """\
first = (levels - 1) % 3 + 1
step = width >> first
for base in range(low, high - width // 2, width):
    if first == 1:
        merge_words(LANES, 2, MIRRORED, words, base, base + width - 1, step, step)
    elif first == 2:
        merge_words(LANES, 4, MIRRORED, words, base, base + width - 1, step, step)
    else:
        merge_words(LANES, 8, MIRRORED, words, base, base + width - 1, step, step)"""


def indented(text: str, levels: int = 1) -> str:
    """Written statements, inside of others."""
    return "\n".join("    " * levels + line for line in text.splitlines())


# Runs of ``width / 2`` vectors, each lane by itself, are merged until they have ``most``.
COLUMNS = f"""\
while width <= most:
{indented(ASCENDING.replace("MIRRORED", "1"))}
    unit = 1
{indented(DESCENT)}
    width = 2 * width
    levels = levels + 1"""


def has_words(s: Sorting) -> bool:
    """Whether one integer for each element is enough: nobody asks for indices, or there is room for them."""
    return s.output(1) is None or _key(s).itemsize <= INDEX // 8


def most_positions(s: Sorting) -> int:
    """How many positions a word has room for: of float32 numbers, half of the integers that follow infinity."""
    has_zeros = s.output(1) is None and _key(s) == float32
    return (1 << 22) - 1 if has_zeros else (1 << INDEX) - 1


def _key(s: Sorting) -> DType:
    """The type whose numbers are compared."""
    return float32 if s.keys.dtype.is_float and s.keys.dtype.itemsize < float32.itemsize else s.keys.dtype


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
        key = _key(s)
        if s.output(1) is not None:
            return IndexWords(key, int64, s.x.dtype, s.descending, most)
        word = BY_NAME[f"i{8 * key.itemsize}"] if key.is_float else key
        return Words(key, word, s.x.dtype, s.descending, most)

    @property
    def lanes(self) -> int:
        """How many words a vector has."""
        return LINE // self.word.itemsize

    def bits(self, e: ElementBuilder, element: Expr) -> Expr:
        """The bits of an element."""
        key = e.let(Apply("x", (element,), self.key))
        return self._let(e, "float_bits(x)" if self.key.is_float else "x", key)

    def encode(self, e: ElementBuilder, bits: Expr, position: Dim) -> Expr:
        """The word of a row's element at a position, from its bits."""
        word = bits
        if self.key.is_float:
            size, order = self._order(e, bits)
            at = self._let(e, "x", Position(self.most - 1 - position if self.descending else position))
            zero = self._let(e, "x + x + (y & 1)", at, order)
            other = self._let(e, "where(x > 0, WORD(x + ROOM), x)", order)
            word = self._let(e, "where(x == 0, y, z)", size, zero, other)
        return self._let(e, "~x", word) if self.descending else word

    def store(self, s: Sorting, e: ElementBuilder, row: Dim, at: Dim, word: Expr) -> None:
        """Store what is asked for of a word, at a position of a sorted row."""
        (output,) = s.face.outputs
        e.append(Store(output, row * s.size + at, self.decode(e, e.let(word))))

    def decode(self, e: ElementBuilder, word: Expr) -> Expr:
        """The element of a word."""
        word = self._let(e, "~x" if self.descending else "x", word)
        if self.key.is_float:
            zero = self._let(e, "-(x & 1)", word)
            other = self._let(e, "where(x >= ROOM, WORD(x - ROOM), x)", word)
            order = self._let(e, "where((x >= 0) & (x < ROOM), y, z)", word, zero, other)
            number = self._let(e, "where(x > INFINITY, WORD(NAN), x)", order)
            bits = self._let(e, "where(x < 0, WORD(x ^ SIZE), x)", number)
            word = e.let(Apply("bits_float(x)", (bits,), self.key))
        return Apply("x", (word,), self.element)

    def source(self, text: str, names: Mapping[str, str], **numbers: int) -> UserCode:
        """Written statements with a kernel's names and these numbers."""
        text = self._numbered(text, **numbers)
        buffers = [names[name] for name in ("words", "square") if re.search(rf"\b{name}\b", text)]
        return UserCode(renamed(text, names), tuple(buffers))

    def _order(self, e: ElementBuilder, bits: Expr) -> tuple[Expr, Expr]:
        """The bits of a number's size, and an integer that orders as the number does; that of -0.0 is -1."""
        size = self._let(e, "x & SIZE", bits)
        number = self._let(e, "where(x > INFINITY, WORD(INFINITY + 1), y)", size, bits)
        return size, self._let(e, "where(x < 0, WORD(x ^ SIZE), x)", number)

    def _numbered(self, text: str, **numbers: int) -> str:
        """A text with the numbers that stand for words in capitals: LAST follows all others, SIZE is all but a sign."""
        last, sizes = int(np.iinfo(self.word.numpy_name).max), 2 ** (8 * self.key.itemsize - 1) - 1
        every = {"LANES": self.lanes, "WORD": self.word.name, "LAST": last, "SIZE": sizes,
                 "ROOM": 2 * self.most, "INFINITY": self._bits(np.inf), "NAN": self._bits(np.nan)}  # fmt: skip
        every |= numbers
        return re.sub(r"\b[A-Z]+\b", lambda found: str(every[found.group()]), text)

    def _bits(self, number: float) -> int:
        """The bits of a number, of those that are compared."""
        return int(np.array(number, self.key.numpy_name).view(f"i{self.key.itemsize}")) if self.key.is_float else 0

    def _let(self, e: ElementBuilder, text: str, *args: Expr) -> Expr:
        """A step of a conversion."""
        return e.let(Apply(self._numbered(text), args, self.word))


class IndexWords(Words):
    """Those that have an index: 32 bits of the element, then as many of its position. Zeros are equal."""

    __slots__ = ()

    def encode(self, e: ElementBuilder, bits: Expr, position: Dim) -> Expr:
        order = bits
        if self.key.is_float:
            order = self._let(e, "where(x == 0, x, y)", *self._order(e, bits))
        elif self.key.kind == "u":
            order = self._let(e, f"x - {1 << (INDEX - 1)}", bits)
        order = self._let(e, "~x", order) if self.descending else order
        return self._let(e, f"(x << {INDEX}) + y", order, Position(position))

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
