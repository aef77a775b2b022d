"""Prompts as one array, padded on the left, and sequences back in the kind of what was given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zenith.arrays import adapter_for
from zenith.batches import on_host
from zenith.errors import ArgumentError, ValueTypeError, user_line
from zenith.ir.types import NDArray

_FIX = "give ids as integers [batch, length], or a list of prompts of any lengths: [[1, 15, 7], [1, 9]]"


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of any lengths: ``ids`` [batch, length] with zeros on the left, of which ``mask`` is 0.

    ``given`` is what the caller gave.
    """

    ids: NDArray
    mask: NDArray
    given: object

    @classmethod
    def of(cls, given: object, mask: object, tokens: int) -> Prompts:
        """The prompts in an array of ids with an attention mask, or in a list of rows; ids are below ``tokens``."""
        if adapter_for(given) is not None:
            ids = _integers(given)
            ids = ids[None] if ids.ndim == 1 else ids
            seen = np.ones_like(ids) if mask is None else on_host(mask)
            if ids.ndim != 2 or seen.shape != ids.shape:
                raise ArgumentError(f"ids have the shape {ids.shape}, and their mask {seen.shape}", where=user_line(),
                                    fix="give both as [batch, length]")  # fmt: skip
            if not np.isin(seen, (0, 1)).all():
                raise ArgumentError("attention_mask has other values than 0 and 1", where=user_line(),
                                    fix="give 0 for padding, and 1 for tokens")  # fmt: skip
            rows = [row[own.astype(bool)] for row, own in zip(ids, seen, strict=True)]
        elif isinstance(given, Sequence) and not isinstance(given, str):
            if mask is not None:
                raise ArgumentError("a list of prompts needs no attention_mask", where=user_line(), fix="leave it out")
            rows = [_integers(row) for row in (given if _nested(given) else [given])]
        else:
            raise ValueTypeError(f"ids are a {type(given).__name__}", where=user_line(), fix=_FIX)
        return cls(*_padded(rows, tokens), given)

    def together(self, ids: NDArray, counts: Sequence[int], pad: int) -> object:
        """Prompts and what follows them, [batch, count], ``counts`` of each: in the kind that was given."""
        kind = adapter_for(self.given)
        if kind is not None:
            tail = np.where(np.arange(ids.shape[1]) < np.asarray(counts)[:, None], ids, pad)
            start = on_host(self.given)
            dtype = start.dtype if start.dtype.itemsize >= 4 else np.dtype(np.int64)  # a vocabulary needs more
            whole = np.concatenate([np.atleast_2d(start).astype(dtype), tail.astype(dtype)], 1)
            return kind.from_numpy(whole if start.ndim == 2 else whole[0])
        own = [row[seen.astype(bool)] for row, seen in zip(self.ids, self.mask, strict=True)]
        rows = [np.concatenate([a, b[:n]]) for a, b, n in zip(own, ids, counts, strict=True)]
        assert isinstance(self.given, Sequence), "what is no array is a list"
        sources = self.given if _nested(self.given) else [self.given]
        found = [_like(source, row) for source, row in zip(sources, rows, strict=True)]
        return found if _nested(self.given) else found[0]


def _like(source: object, row: NDArray) -> object:
    """A row as an array of the library of its prompt, or as a list."""
    kind = adapter_for(source)
    return row.tolist() if kind is None else kind.from_numpy(row)


def _nested(given: Sequence[object]) -> bool:
    """Whether a list is one of prompts."""
    return bool(given) and not isinstance(given[0], int | np.integer)


def _integers(given: object) -> NDArray:
    try:
        found = np.asarray(given) if adapter_for(given) is None else on_host(given)
    except ValueError:  # of rows in a row
        raise ValueTypeError("ids are nested in some places and not in others", where=user_line(), fix=_FIX) from None
    if found.dtype.kind not in "iu" and found.size:
        raise ValueTypeError(f"ids are of type {found.dtype}", where=user_line(), fix=_FIX)
    return found.astype(np.int64)


def _padded(rows: Sequence[NDArray], tokens: int) -> tuple[NDArray, NDArray]:
    """Rows as one array with zeros on the left, and its mask."""
    empty = [number for number, row in enumerate(rows) if row.ndim != 1 or not len(row)]
    if empty or not rows:
        what = f"prompt {empty[0]} has" if rows else "ids have"
        raise ArgumentError(f"{what} no token", where=user_line(), fix="begin with one, such as the tokenizer's bos")
    for number, row in enumerate(rows):
        if row.min() < 0 or row.max() >= tokens:
            raise ArgumentError(
                f"prompt {number} has the ids {row.min()} to {row.max()}, and the model the tokens 0 to {tokens - 1}",
                where=user_line(), fix="use the model's own tokenizer",
            )  # fmt: skip
    length = max(2, *map(len, rows))  # 2, so that a single token needs no program of its own
    ids, mask = np.zeros((2, len(rows), length), np.int64)
    for row, own, seen in zip(rows, ids, mask, strict=True):
        own[length - len(row) :], seen[length - len(row) :] = row, 1
    return ids, mask
