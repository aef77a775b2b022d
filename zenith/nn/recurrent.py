"""Recurrent layers: cells with a state, in loops over the steps of a sequence.

Weights have PyTorch's layout. The product of the inputs, which does not depend on the state, is computed for the whole
sequence ahead of the loop. 16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zenith.numpy as znp
from zenith.control import scan
from zenith.errors import ArgumentError, ShapeError, user_line
from zenith.nn.activations import relu, sigmoid
from zenith.nn.rounding import rounded_once
from zenith.numpy.operands import dims_of, shape_text
from zenith.numpy.typing import Array, ArrayLike

__all__ = ["gru", "lstm", "rnn"]

Weights = Sequence[Any]
States = tuple[Array, ...]
Cell = Callable[[Array, States, Weights], States]


@rounded_once
def rnn(
    x: ArrayLike, weights: Sequence[Weights], state: Any = None, nonlinearity: str = "tanh",
    bidirectional: bool = False, batch_first: bool = False,
) -> tuple[Array, Array]:  # fmt: skip
    """An Elman network (1990): ``h = tanh(x w_ih.T + b_ih + h w_hh.T + b_hh)``.

    Parameters
    ----------
    x: sequences ``[length, n, inputs]``, ``[n, length, inputs]`` with ``batch_first``, or one, ``[length, inputs]``.
    weights: for each layer, and with ``bidirectional`` for each direction of it, a tuple ``(w_ih, w_hh, b_ih, b_hh)``
        of shapes ``[hidden, inputs]``, ``[hidden, hidden]``, ``[hidden]``, ``[hidden]``, or without the last two.
    state: the first state of each of them, ``[layers * directions, n, hidden]``; zeros for None.
    nonlinearity: ``"tanh"`` or ``"relu"``.
    bidirectional: each layer also reads from the end, with further weights; those results come after the others.

    Returns the last layer's states ``[length, n, directions * hidden]`` (axes as in x), and the last state of every
    layer and direction ``[layers * directions, n, hidden]``.

    Raises ShapeError and ArgumentError for other shapes and numbers of weights.

    >>> import numpy as np
    >>> w = [(np.eye(1), np.eye(1))]
    >>> outputs, last = rnn(np.ones((2, 1, 1)), w, nonlinearity="relu")
    >>> outputs.ravel(), last.shape
    (array([1., 2.]), (1, 1, 1))
    """
    if nonlinearity not in _FUNCTIONS:
        raise ArgumentError(f"rnn has no nonlinearity {nonlinearity!r}", where=user_line(), fix="use tanh or relu")
    function = _FUNCTIONS[nonlinearity]

    def cell(gates: Array, states: States, own: Weights) -> States:
        return (function(gates + _hidden(states[0], own)),)

    outputs, (last,) = _run(cell, "rnn", x, weights, (state,), bidirectional, batch_first)
    return outputs, last


@rounded_once
def lstm(
    x: ArrayLike, weights: Sequence[Weights], state: tuple[Any, Any] | None = None, bidirectional: bool = False,
    batch_first: bool = False,
) -> tuple[Array, tuple[Array, Array]]:  # fmt: skip
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; with forget gates, Gers et al., 2000).

    Parameters are those of :func:`rnn`, but weights have four times ``hidden`` rows, for the gates in PyTorch's order:
    input, forget, cell, output. A tuple may end with a projection ``[outputs, hidden]`` of the state (Sak et al.,
    2014). ``state`` is a pair, hidden states and cells.

    Returns the last layer's states, and a pair of the last hidden states and cells.

    >>> import numpy as np
    >>> w = [(np.zeros((4, 1)), np.zeros((4, 1)))]
    >>> outputs, (h, c) = lstm(np.ones((2, 1, 1)), w, (np.ones((1, 1, 1)), np.ones((1, 1, 1))))
    >>> c.ravel()
    array([0.25])
    """

    def cell(gates: Array, states: States, own: Weights) -> States:
        h, c = states
        i, f, g, o = _gates(gates + _hidden(h, own), 4)
        c = sigmoid(f) * c + sigmoid(i) * znp.tanh(g)
        h = sigmoid(o) * znp.tanh(c)
        return (znp.matmul(h, znp.transpose(own[-1])) if len(own) % 2 else h), c

    outputs, last = _run(cell, "lstm", x, weights, state or (None, None), bidirectional, batch_first)
    return outputs, (last[0], last[1])


@rounded_once
def gru(
    x: ArrayLike, weights: Sequence[Weights], state: Any = None, bidirectional: bool = False, batch_first: bool = False
) -> tuple[Array, Array]:
    """Gated recurrent units (Cho et al., 2014), with PyTorch's reset gate after the product of the state.

    Parameters and results are those of :func:`rnn`, but weights have three times ``hidden`` rows, for the reset gate,
    the update gate and the new state.

    >>> import numpy as np
    >>> outputs, last = gru(np.ones((2, 1, 1)), [(np.zeros((3, 1)), np.zeros((3, 1)))], np.ones((1, 1, 1)))
    >>> last.ravel()
    array([0.25])
    """

    def cell(gates: Array, states: States, own: Weights) -> States:
        (h,) = states
        reset, update, new = _gates(gates, 3)
        own_reset, own_update, own_new = _gates(_hidden(h, own), 3)
        new = znp.tanh(new + sigmoid(reset + own_reset) * own_new)
        return ((h - new) * sigmoid(update + own_update) + new,)

    outputs, (last,) = _run(cell, "gru", x, weights, (state,), bidirectional, batch_first)
    return outputs, last


_FUNCTIONS: dict[str, Callable[[Array], Array]] = {"tanh": znp.tanh, "relu": relu}


def _hidden(h: Array, own: Weights) -> Array:
    """The state's contribution to the gates."""
    product = znp.matmul(h, znp.transpose(own[1]))
    return product + own[3] if len(own) > 3 else product


def _gates(values: Array, count: int) -> list[Array]:
    width = values.shape[1] // count
    return [values[:, i * width : (i + 1) * width] for i in range(count)]


def _run(
    cell: Cell, name: str, x: ArrayLike, weights: Sequence[Weights], states: tuple[Any, ...], bidirectional: bool,
    batch_first: bool,
) -> tuple[Array, tuple[Array, ...]]:  # fmt: skip
    """All layers, one after the other: the last one's results, and the last states of all."""
    x, single = znp.asarray(x), False
    if x.ndim == 2:
        x, states, single = znp.expand_dims(x, 1), tuple(_widened(s) for s in states), True
    elif batch_first:
        x = znp.swapaxes(x, 0, 1)
    directions = 2 if bidirectional else 1
    _check(name, x, weights, directions)
    ends: list[States] = []
    for layer in range(0, len(weights), directions):
        both = []
        for number in range(layer, layer + directions):
            own = tuple(map(znp.asarray, weights[number]))
            first = tuple(_first(s, number, i, x, own) for i, s in enumerate(states))
            last, results = _layer(cell, x, own, first, reverse=number > layer)
            both.append(results)
            ends.append(last)
        x = both[0] if directions == 1 else znp.concatenate(both, -1)
    lasts = tuple(znp.stack(end) for end in zip(*ends, strict=True))
    if single:
        return x[:, 0], tuple(last[:, 0] for last in lasts)
    return znp.swapaxes(x, 0, 1) if batch_first else x, lasts


def _layer(cell: Cell, x: Array, own: Weights, first: States, reverse: bool) -> tuple[States, Array]:
    """One layer in one direction: its last states, and the hidden state at every step."""
    gates = znp.matmul(x, znp.transpose(own[0]))
    gates = gates + own[2] if len(own) > 3 else gates

    def step(states: States, inputs: Array) -> tuple[States, Array]:
        following = cell(inputs, states, own)
        return following, following[0]

    last, results = scan(step, first, gates, reverse=reverse)
    return last, results


def _first(state: Any, number: int, which: int, x: Array, own: Weights) -> Array:
    """The state with which a layer begins; hidden states (the first) have the width of the cell's output."""
    if state is not None:
        return znp.astype(znp.asarray(state)[number], x.dtype)
    width = own[-1].shape[1] if which and len(own) % 2 else own[1].shape[1]
    return znp.zeros((x.shape[1], width), x.dtype)


def _widened(state: Any) -> Array | None:
    return None if state is None else znp.expand_dims(znp.asarray(state), 1)


def _check(name: str, x: Array, weights: Sequence[Weights], directions: int) -> None:
    if x.ndim != 3:
        raise ShapeError(f"{name} needs sequences [length, n, inputs], or one without n", where=user_line(),
                         types=(shape_text(dims_of(x)),), fix="reshape x to three axes")  # fmt: skip
    known = (2, 3, 4, 5) if name == "lstm" else (2, 4)
    if not weights or len(weights) % directions or any(len(own) not in known for own in weights):
        raise ArgumentError(
            f"{name} needs a tuple of weights for each layer and direction: w_ih, w_hh, and b_ih, b_hh if there are",
            where=user_line(), fix="with two directions, those of a layer are adjacent",
        )  # fmt: skip
