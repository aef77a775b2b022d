"""Einstein sums: operands are joined pairwise, each join one batched matrix product.

The letters of a pair are sorted into batch (in both and kept), summed (in both, needed no more) and free (in one);
transposes and reshapes bring them into the form of a product.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from zenith.errors import ShapeError, UnsupportedError, user_line
from zenith.ir.dims import product
from zenith.numpy import reductions
from zenith.numpy.linear import sizes_by_letter
from zenith.numpy.operands import as_array, convert, dims_of, result_dtype
from zenith.numpy.shaping import transpose
from zenith.trace.bind import b
from zenith.trace.dispatch import implements

__all__ = ["einsum"]


@implements(np.einsum, gives="maybe")
def einsum(subscripts: str, *operands: Any, optimize: Any = False, **options: Any) -> Any:
    """As ``numpy.einsum`` with a subscripts text; every letter at most once in an operand."""
    if options or not isinstance(subscripts, str):
        raise UnsupportedError("einsum takes a text and operands only", where=user_line(), fix="write 'ij,jk->ik'")
    dtype = result_dtype("einsum", operands)
    arrays = [convert(x, dtype) for x in operands]
    terms, result = _parse(subscripts, [x.ndim for x in arrays])
    sizes_by_letter("einsum", terms, [dims_of(x) for x in arrays])
    term, x = terms[0], arrays[0]
    for i in range(1, len(arrays)):
        later = set(result).union(*terms[i + 1 :])
        term, x = _join(term, x, terms[i], arrays[i], later)
    term, x = _sum_out(term, x, set(result))
    return transpose(x, [term.index(letter) for letter in result])


def _parse(subscripts: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """One text of letters for each operand, and that of the result; an ellipsis becomes unused letters."""
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
    if len(set(letters)) != len(letters):
        raise UnsupportedError(
            f"einsum: a letter repeats in {term!r}", where=user_line(), fix="take the diagonal first: numpy.diagonal"
        )
    return letters


def _sum_out(term: str, x: Any, needed: set[str]) -> tuple[str, Any]:
    """Sum over the letters that nobody needs."""
    axes = tuple(i for i, letter in enumerate(term) if letter not in needed)
    if not axes:
        return term, x
    return "".join(c for c in term if c in needed), reductions.sum(x, axes, dtype=x.dtype)


def _join(s: str, x: Any, t: str, y: Any, later: set[str]) -> tuple[str, Any]:
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
    height, depth, width = (product(size[c] for c in part) for part in (rows, summed, columns))
    joined = b.matmul(b.reshape(left, shape=(*lead, height, depth)), b.reshape(right, shape=(*lead, depth, width)))
    letters = [*batch, *rows, *columns]
    return "".join(letters), b.reshape(joined, shape=tuple(size[c] for c in letters))
