"""Connectionist temporal classification: the likelihood of a sequence whose alignment with the frames is unknown."""

from __future__ import annotations

import numpy as np

import zenith.numpy as znp
from zenith.control import scan
from zenith.errors import ShapeError, user_line
from zenith.nn.losses import reduced
from zenith.nn.rounding import rounded_once
from zenith.numpy.typing import Array, ArrayLike
from zenith.trace.bind import b

__all__ = ["ctc_loss"]


@rounded_once
def ctc_loss(
    log_probs: ArrayLike, targets: ArrayLike, input_lengths: ArrayLike, target_lengths: ArrayLike, blank: int = 0,
    reduction: str = "mean", zero_infinity: bool = False,
) -> Array:  # fmt: skip
    """The negative logarithm of the probability of all alignments of targets with frames.

    Graves, Fernandez, Gomez and Schmidhuber, "Connectionist temporal classification", 2006: the forward recursion, in
    logarithms, as a loop over frames.

    Parameters
    ----------
    log_probs: logarithms of probabilities ``[frames, n, classes]``, such as :func:`zenith.nn.log_softmax` gives.
    targets: integers ``[n, length]``, none of them the blank; elements after a target's end are not read.
    input_lengths, target_lengths: integers ``[n]``, how many frames and how much of a target count.
    blank: the class that means no class, between others.
    reduction: ``"mean"`` over losses, each divided by its target's length, ``"sum"`` or ``"none"``.
    zero_infinity: use 0 for the loss, and for its gradient, where no alignment is possible.

    Raises ShapeError for other numbers of axes. A length beyond its array is an OutOfBoundsError.

    >>> p = np.log(np.full((2, 1, 2), 0.5))
    >>> ctc_loss(p, [[1]], [2], [1]).round(4)  # of four paths three spell it
    np.float64(0.2877)
    """
    log_probs = znp.asarray(log_probs)
    targets, input_lengths, target_lengths = (
        znp.astype(znp.asarray(a), np.int64) for a in (targets, input_lengths, target_lengths)
    )
    if (log_probs.ndim, targets.ndim) != (3, 2):
        raise ShapeError("ctc_loss needs log_probs [frames, n, classes] and targets [n, length]", where=user_line(),
                         fix="pad the targets to one length, and give target_lengths")  # fmt: skip
    frames, length = log_probs.shape[0], targets.shape[1]
    ends = b.take(znp.arange(length + 1), target_lengths, axis=0)
    last = b.take(znp.arange(frames + 1), input_lengths, axis=0)
    states = _states(targets, blank)
    losses = -_ends(_forward(log_probs, states, blank, last), ends)
    if zero_infinity:
        losses = znp.where(losses == np.inf, 0, losses)
    return reduced(losses / znp.maximum(ends, 1) if reduction == "mean" else losses, reduction)


def _states(targets: Array, blank: int) -> Array:
    """A target with blanks around each of its classes: ``[n, 2 length + 1]``."""
    count, length = targets.shape
    blanks = znp.full((count, length), blank, np.int64)
    pairs = znp.reshape(znp.stack([blanks, targets], -1), (count, 2 * length))
    return znp.concatenate([pairs, znp.full((count, 1), blank, np.int64)], 1)


def _forward(log_probs: Array, states: Array, blank: int, last: Array) -> Array:
    """The logarithm of the probability of being in each state after the last frame, ``[n, states]``."""
    count, width = states.shape
    emissions = znp.take_along_axis(log_probs, znp.broadcast_to(states, (log_probs.shape[0], count, width)), 2)
    before = znp.arange(width) - 2
    earlier = znp.take(states, znp.maximum(before, 0), axis=1)
    skips = znp.logical_and(znp.logical_and(states != blank, states != earlier), before >= 0)
    begin = znp.where(znp.arange(width) == 0, 0.0, -np.inf)  # before the first frame, which is blank or the first class
    start = znp.astype(znp.broadcast_to(begin, (count, width)), log_probs.dtype)

    def step(alphas: Array, frame: tuple[Array, Array]) -> tuple[Array, None]:
        number, emission = frame
        moved = znp.logaddexp(alphas, _shifted(alphas, 1))
        moved = znp.logaddexp(moved, znp.where(skips, _shifted(alphas, 2), -np.inf)) + emission
        return znp.where(znp.expand_dims(number < last, 1), moved, alphas), None

    return scan(step, start, (znp.arange(log_probs.shape[0]), emissions))[0]


def _shifted(alphas: Array, count: int) -> Array:
    """The probability of the state ``count`` before each state; 0 before the first."""
    return znp.pad(alphas, ((0, 0), (count, 0)), constant_values=-np.inf)[:, : alphas.shape[1]]


def _ends(alphas: Array, lengths: Array) -> Array:
    """The two states in which a target may end: its last class, and the blank after it."""
    rows = znp.arange(alphas.shape[0])
    blank = b.gather(alphas, rows, 2 * lengths)
    last_class = b.gather(alphas, rows, znp.maximum(2 * lengths - 1, 0))
    return znp.logaddexp(blank, znp.where(lengths > 0, last_class, -np.inf))
