"""The choice of the next token from its logits: the most likely one, or a draw.

Logits are changed in the order of Hugging Face's processors: repetition penalty (Keskar et al., arXiv:1909.05858),
temperature, the k largest, and the fewest that have a share of the probability together (nucleus sampling, Holtzman
et al., arXiv:1904.09751).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zenith.errors import ArgumentError, user_line
from zenith.generation.options import Options, check, is_real, is_whole
from zenith.ir.types import NDArray


@dataclass(frozen=True, slots=True)
class Sampling:
    """The options that choose a token."""

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    repetition_penalty: float = 1.0

    @classmethod
    def of(cls, options: Options) -> Sampling:
        """Those among all options, checked."""
        unknown = sorted(options.keys() - Options.__annotations__.keys())
        if unknown:
            raise ArgumentError(f"generate has no option {', '.join(unknown)}", where=user_line(),
                                fix=f"choose among {', '.join(Options.__annotations__)}")  # fmt: skip
        found = cls(options.get("temperature", 0.0), options.get("top_k"), options.get("top_p"),
                    options.get("repetition_penalty", 1.0))  # fmt: skip
        found.check()
        seed = options.get("seed")
        check("seed", seed, seed is None or (is_whole(seed) and seed >= 0), "a whole number from 0 on")
        return found

    def check(self) -> None:
        """ArgumentError for options that there are not."""
        heat, penalty, k, p = self.temperature, self.repetition_penalty, self.top_k, self.top_p
        check("temperature", heat, is_real(heat) and heat >= 0, "0 for the most likely token, or more")
        check("repetition_penalty", penalty, is_real(penalty) and penalty > 0, "a positive number")
        check("top_k", k, k is None or (is_whole(k) and k >= 1), "a number of tokens, 1 at least")
        check("top_p", p, p is None or (is_real(p) and 0 < p <= 1), "a share of the probability, up to 1")
        if not self.temperature and not (self.top_k is None and self.top_p is None):
            raise ArgumentError("top_k and top_p are about draws, and temperature 0 takes the most likely token",
                                where=user_line(), fix="give a temperature, such as 1.0")  # fmt: skip

    def choose(self, logits: NDArray, before: Sequence[NDArray], generator: np.random.Generator) -> NDArray:
        """A token for each row of ``logits`` [batch, tokens]; ``before`` are the ids of each sequence so far."""
        if np.isnan(logits).any() or np.isposinf(logits).any():
            raise ArgumentError("the model's logits have nan or infinities", where=user_line(),
                                fix="look for them in its weights")  # fmt: skip
        if self.repetition_penalty != 1.0:
            logits = _penalised(logits, before, self.repetition_penalty)
        if not self.temperature:
            found: NDArray = np.argmax(logits, -1)
            return found
        with np.errstate(over="ignore"):  # near temperature 0, where all but the largest weigh nothing
            scaled = (logits.astype(np.float64) - logits.max(-1, keepdims=True)) / self.temperature
        weights = self._weights(scaled)
        bounds = np.cumsum(weights, -1)
        draws = generator.random(len(bounds)) * bounds[:, -1]
        return np.array([np.searchsorted(row, draw, "right") for row, draw in zip(bounds, draws, strict=True)])

    def _weights(self, logits: NDArray) -> NDArray:
        """What tokens weigh in a draw: 0 for those that it leaves out."""
        order = np.argsort(-logits, -1, kind="stable")
        top = np.take_along_axis(logits, order, -1)
        weights = np.exp(top - top[:, :1])
        if self.top_k is not None:
            weights[:, self.top_k :] = 0
        if self.top_p is not None:
            share = np.cumsum(weights, -1) / weights.sum(-1, keepdims=True)
            weights[:, 1:][share[:, :-1] >= self.top_p] = 0
        found = np.empty_like(weights)
        np.put_along_axis(found, order, weights, -1)
        return found


def _penalised(logits: NDArray, before: Sequence[NDArray], penalty: float) -> NDArray:
    """Logits of tokens that are there already, divided by the penalty where positive and multiplied where not."""
    found = logits.copy()
    for row, ids in zip(found, before, strict=True):
        own = row[ids]
        row[ids] = np.where(own > 0, own / penalty, own * penalty)
    return found
