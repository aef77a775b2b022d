"""Einstein sums: operands are joined pairwise, each join one batched matrix product.

A letter that an operand has twice is a diagonal of it, and one whose size is 1 in an operand and more in another is
left out of the first. The letters of a pair are sorted into batch (in both, needed later), summed (in both, not needed
later) and free (in one); transposes and reshapes bring them into the form of a product.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError, UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.numpy import elementwise as ew
from zenith.numpy import reductions
from zenith.numpy.casts import require_cast
from zenith.numpy.linear import FLOAT32, diagonal, sizes_by_letter
from zenith.numpy.operands import (
    as_array,
    ask,
    asked_recorder,
    compute_dtype,
    convert,
    dims_of,
    require,
    result_dtype,
    strong,
)
from zenith.numpy.shaping import transpose
from zenith.numpy.typing import Array, ArrayLike, DTypeLike
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["einsum"]


@implements(np.einsum, gives="maybe")
def einsum(
    subscripts: Any, *operands: Any, dtype: DTypeLike | None = None, casting: str = "safe", optimize: object = False,
    **options: object,
) -> Array:  # fmt: skip
    """As ``numpy.einsum``: with a string, or alternating operands and lists of numbers; of bools whether any is true.

    It is computed in ``dtype``, which the rule ``casting`` must let the operands become (DTypeError).

    >>> einsum("ii->i", [[1, 2], [3, 4]]), einsum([[1, 2], [3, 4]], [0, 1], [1, 1], [1], [0])
    (array([1, 4]), array([3, 7]))
    """
    if options:
        raise UnsupportedError(f"einsum: the options {', '.join(sorted(options))} are not supported",
                               where=user_line(), fix="leave them out")  # fmt: skip
    if not isinstance(subscripts, str):
        subscripts, operands = _text_of_lists((subscripts, *operands))
    operands = tuple(strong(as_array(operand)) for operand in operands)  # a Python number is a float64 array, too
    wanted = result_dtype("einsum", operands) if dtype is None else compute_dtype("einsum", np.dtype(dtype))
    for operand in operands:
        require_cast("einsum", operand.dtype, wanted, casting)
    if wanted.kind == "b":
        counts = einsum(subscripts, *(convert(convert(x, wanted), FLOAT32) for x in operands))
        return ew.not_equal(counts, 0)
    return _summed(subscripts, [convert(x, wanted) for x in operands])


def _text_of_lists(given: Sequence[Any]) -> tuple[str, tuple[ArrayLike, ...]]:
    """Alternating operands and lists of numbers as a string and operands; the last list is the result's."""
    lists = [*given[1::2], *([given[-1]] if len(given) % 2 else [])]
    if len(given) < 2 or not all(isinstance(one, (list, tuple)) for one in lists):
        raise UnsupportedError("einsum takes a text and operands, or operands with a list of numbers after each",
                               where=user_line(), fix="write 'ij,jk->ik'")  # fmt: skip
    numbers = sorted({n for one in lists for n in one if n is not Ellipsis})
    letters = dict(zip(numbers, string.ascii_letters, strict=False)) | {Ellipsis: "..."}
    terms = ["".join(letters[n] for n in one) for one in lists]
    count = len(given) // 2
    return ",".join(terms[:count]) + "".join(f"->{term}" for term in terms[count:]), tuple(given[0 : 2 * count : 2])


def _summed(subscripts: str, arrays: Sequence[Array]) -> Array:
    terms, result = _parse(subscripts, [x.ndim for x in arrays])
    terms, arrays = map(list, zip(*map(_diagonals, terms, arrays), strict=True))
    terms, arrays = _without_ones(terms, arrays)
    sizes_by_letter("einsum", terms, [dims_of(x) for x in arrays])
    term, x = terms[0], arrays[0]
    for i in range(1, len(arrays)):
        later = set(result).union(*terms[i + 1 :])
        term, x = _join(term, x, terms[i], arrays[i], later)
    term, x = _sum_out(term, x, set(result))
    return transpose(x, [term.index(letter) for letter in result])


def _parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One string of letters for each operand, and that of the result; an ellipsis becomes unused letters."""
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ShapeError(
            f"einsum: {len(terms)} terms for {len(ranks)} operands",
            where=user_line(),
            fix="write a term for each operand, with commas between them",
        )
    unused = [c for c in string.ascii_letters if c not in subscripts]
    longest = max((r - len(t) + 3 for t, r in zip(terms, ranks, strict=True) if "..." in t), default=0)
    dots = "".join(unused[:longest])
    expanded = [_expand(t, r, dots) for t, r in zip(terms, ranks, strict=True)]
    if not arrow:
        letters = "".join(terms).replace(".", "")
        right = "..." * bool(dots) + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    if dots and "..." not in right:
        raise ShapeError("einsum: the result leaves out the axes that ... stands for",
                         where=user_line(), fix="write ... in the result, or letters in the terms")  # fmt: skip
    result = right.replace("...", dots)
    if any(result.count(c) > 1 or c not in "".join(expanded) for c in result):
        raise ShapeError(
            f"einsum: the result {right!r} does not follow from the operands",
            where=user_line(),
            fix="use letters of the terms, each once",
        )
    return expanded, result


def _expand(term: str, rank: int, dots: str) -> str:
    count = rank - len(term) + 3 if "..." in term else 0
    letters = term.replace("...", dots[len(dots) - count :] if count else "")
    if len(letters) != rank:
        raise ShapeError(
            f"einsum: the term {term!r} does not fit an operand of {rank} axes",
            where=user_line(),
            fix="write a letter for each axis, or ... for some",
        )
    return letters


def _diagonals(term: str, x: Array) -> tuple[str, Array]:
    """An operand with every letter once: where one occurs twice, the diagonal of these axes, which comes last."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            require(dims_of(x)[first], "==", dims_of(x)[second], f"einsum: the sizes of axis {letter!r} must be equal")
            x = diagonal(x, 0, first, second)
            term = "".join(c for i, c in enumerate(term) if i not in (first, second)) + letter
    return term, x


def _without_ones(terms: Sequence[str], arrays: Sequence[Array]) -> tuple[list[str], list[Array]]:
    """Operands without the axes of size 1 that another operand has with more."""
    hint = asked_recorder().hint
    long = {
        c for term, x in zip(terms, arrays, strict=True) for c, n in zip(term, dims_of(x), strict=True) if hint(n) != 1
    }
    found = []
    for term, x in zip(terms, arrays, strict=True):
        pairs = list(zip(term, dims_of(x), strict=True))
        rest = [(c, n) for c, n in pairs if c not in long or hint(n) != 1 or not ask(n, "==", 1)]
        shape = tuple(n for _, n in rest)
        found.append(("".join(c for c, _ in rest), x if len(rest) == len(pairs) else b.reshape(x, shape=shape)))
    return [term for term, _ in found], [x for _, x in found]


def _sum_out(term: str, x: Array, needed: set[str]) -> tuple[str, Array]:
    """Sum over the letters that are not needed."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in needed)
    if not axes:
        return term, x
    return "".join(c for c in term if c in needed), reductions.sum(x, axes, dtype=x.dtype)


def _join(s: str, x: Array, t: str, y: Array, later: set[str]) -> tuple[str, Array]:
    """The product of two operands, summed over the letters that are in both and needed no more."""
    s, x = _sum_out(s, as_array(x), set(t) | later)
    t, y = _sum_out(t, as_array(y), set(s) | later)
    batch = [c for c in s if c in t and c in later]
    summed = [c for c in s if c in t and c not in later]
    rows, columns = [c for c in s if c not in t], [c for c in t if c not in s]
    size = dict(zip(s, dims_of(x), strict=True)) | dict(zip(t, dims_of(y), strict=True))
    left = transpose(x, [s.index(c) for c in (*batch, *rows, *summed)])
    right = transpose(y, [t.index(c) for c in (*batch, *summed, *columns)])
    lead = tuple(size[c] for c in batch)
    height, depth, width = (product(size[c] for c in group) for group in (rows, summed, columns))
    joined = b.matmul(b.reshape(left, shape=(*lead, height, depth)), b.reshape(right, shape=(*lead, depth, width)))
    letters = [*batch, *rows, *columns]
    return "".join(letters), b.reshape(joined, shape=tuple(size[c] for c in letters))
