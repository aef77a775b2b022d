"""What sorting networks share: elements as words, which are integers that order as elements do, and written merges.

Networks are not stable, so equal words must be equal elements. 0.0 and -0.0 are not, and keep their order: a zero's
word has its position, for which the words of what is positive leave room. All nans have one word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from zenith.backends.expressions import Apply, Expr, Position
from zenith.backends.kernel import UserCode
from zenith.backends.lower.elements import ElementBuilder
from zenith.backends.lower.order.radix_sort import Sorting
from zenith.backends.lower.order.written import renamed
from zenith.ir.dims import Dim
from zenith.ir.types import BY_NAME, DType, float32

LINE = 64  # bytes of a vector

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


@dataclass(frozen=True, slots=True)
class Words:
    """What elements are converted to, the words' type, how many a vector has, and positions that zeros can have."""

    element: DType
    key: DType
    word: DType
    lanes: int
    descending: bool
    most: int

    @staticmethod
    def of(s: Sorting, most: int) -> Words:
        """The words of a sort, whose rows have at most so many elements, a power of two."""
        key = float32 if s.keys.dtype.is_float and s.keys.dtype.itemsize < float32.itemsize else s.keys.dtype
        word = BY_NAME[f"i{8 * key.itemsize}"] if key.is_float else key
        return Words(s.x.dtype, key, word, LINE // word.itemsize, s.descending, most)

    @property
    def last(self) -> int:
        """The word that no other one follows."""
        return int(np.iinfo(self.word.numpy_name).max)

    def bits(self, e: ElementBuilder, element: Expr) -> Expr:
        """The bits of an element."""
        key = e.let(Apply("x", (element,), self.key))
        return self._let(e, "float_bits(x)", key) if self.key.is_float else key

    def encode(self, e: ElementBuilder, bits: Expr, position: Dim) -> Expr:
        """The word of a row's element at a position, from its bits."""
        word = bits
        if self.key.is_float:
            size = self._let(e, "x & LAST", bits)
            number = self._let(e, f"where(x > {self._bits(np.inf)}, WORD({self._bits(np.nan)}), y)", size, bits)
            order = self._let(e, "where(x < 0, WORD(x ^ LAST), x)", number)
            at = self._let(e, "x", Position(self.most - 1 - position if self.descending else position))
            zero = self._let(e, "x + x + (y & 1)", at, order)
            other = self._let(e, "where(x > 0, WORD(x + ROOM), x)", order)
            word = self._let(e, "where(x == 0, y, z)", size, zero, other)
        return self._let(e, "~x", word) if self.descending else word

    def decode(self, e: ElementBuilder, word: Expr) -> Expr:
        """The element of a word."""
        word = self._let(e, "~x" if self.descending else "x", word)
        if self.key.is_float:
            zero = self._let(e, "-(x & 1)", word)
            other = self._let(e, "where(x >= ROOM, WORD(x - ROOM), x)", word)
            order = self._let(e, "where((x >= 0) & (x < ROOM), y, z)", word, zero, other)
            bits = self._let(e, "where(x < 0, WORD(x ^ LAST), x)", order)
            word = e.let(Apply("bits_float(x)", (bits,), self.key))
        return Apply("x", (word,), self.element)

    def source(self, text: str, names: Mapping[str, str], **numbers: int) -> UserCode:
        """Written statements with a kernel's names and these numbers."""
        text = self._numbered(text, **numbers)
        buffers = [names[name] for name in ("words", "square") if re.search(rf"\b{name}\b", text)]
        return UserCode(renamed(text, names), tuple(buffers))

    def _numbered(self, text: str, **numbers: int) -> str:
        every = {"LANES": self.lanes, "LAST": self.last, "ROOM": 2 * self.most, "WORD": self.word.name, **numbers}
        return re.sub(r"\b[A-Z]+\b", lambda found: str(every[found.group()]), text)

    def _bits(self, number: float) -> int:
        return int(np.array(number, self.key.numpy_name).view(self.word.numpy_name))

    def _let(self, e: ElementBuilder, text: str, *args: Expr) -> Expr:
        """A step of a conversion."""
        return e.let(Apply(self._numbered(text), args, self.word))
