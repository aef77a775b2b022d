"""The loop of one call: a step for the prompts, then one for each token, until all sequences have ended.

Where further tokens are proposed, a step reads several at once, and gives as many more as were proposed rightly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from zenith.generation.prompts import Prompts
from zenith.generation.sampling import Sampling
from zenith.ir.types import NDArray

Logits = Callable[[NDArray, NDArray, bool], NDArray]  # of ids [batch, count], of the tokens in a mask [batch, time]
Propose = Callable[[NDArray, int], NDArray]  # tokens that may follow a sequence [count], so many at most


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a call: ``most`` tokens at most, up to one of ``ends``, after which there is ``pad``.

    ``proposed`` says how many tokens at most are proposed for a step.
    """

    prompts: Prompts
    most: int
    sampling: Sampling
    seed: int | None
    ends: frozenset[int]
    pad: int
    proposed: int = 0

    @property
    def length(self) -> int:
        """The time of a whole sequence, with the padding of prompts."""
        return self.prompts.ids.shape[1] + self.most


class Decoding:
    """One call: an iterator over the tokens [batch] of each step, which knows the sequences so far."""

    def __init__(self, request: Request, logits: Logits, propose: Propose) -> None:
        self._request, self._logits, self._propose = request, logits, propose
        batch, start = request.prompts.ids.shape
        self._ids, self._mask = np.zeros((2, batch, request.length), np.int64)
        self._ids[:, :start], self._mask[:, :start], self._mask[:, start:] = (
            request.prompts.ids,
            request.prompts.mask,
            1,
        )
        self._counts, self._time = np.zeros(batch, np.int64), start
        self._kinds: set[bool] = set()  # of the steps after the first: whether tokens were proposed

    def __iter__(self) -> Iterator[NDArray]:
        request, random = self._request, np.random.default_rng(self._request.seed)
        running, read = np.ones(len(self._ids), bool), 0
        while self._time < request.length and running.any():
            for logits in self._round(read):
                expected = self._ids[:, self._time].copy()
                tokens = self._ids[:, self._time] = request.sampling.choose(logits, self._seen(self._time), random)
                self._counts += running
                found = np.where(running, tokens, request.pad)  # which may be none of the model's tokens
                running &= ~np.isin(tokens, [*request.ends])
                self._time += 1
                yield found
                if not running.any() or (tokens != expected).any():
                    break
            read = self._time - 1

    def _round(self, read: int) -> NDArray:
        """The logits [count, batch, tokens] after the tokens so far, and after further ones that were proposed.

        The cache has the first ``read`` ones.
        """
        time, most = self._time, min(self._request.proposed, self._request.length - self._time - 1)
        likely = self._propose(self._seen(time)[0], most) if read and most else self._ids[0, :0]
        if read:
            self._kinds.add(bool(len(likely)))
        if not len(likely):
            return self._logits(self._ids[:, read:time], self._mask[:, :time], False)[None]
        self._ids[:, time : time + len(likely)], time = likely, time + len(likely)
        return self._logits(self._ids[:, read:time], self._mask[:, :time], True)

    @property
    def ran_all(self) -> bool:
        """Whether all kinds of steps have run that such a call has."""
        return self._kinds == ({False, True} if self._request.proposed else {False})

    def _seen(self, time: int) -> list[NDArray]:
        """The tokens of each sequence so far, without padding."""
        return [row[:time][mask[:time].astype(bool)] for row, mask in zip(self._ids, self._mask, strict=True)]

    def sequences(self) -> object:
        """All prompts with what followed, in the kind of the prompts."""
        start = self._request.prompts.ids.shape[1]
        tail = self._ids[:, start : self._time]
        return self._request.prompts.together(tail, self._counts.tolist(), self._request.pad)
