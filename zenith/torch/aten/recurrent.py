"""Recurrent layers as one operator: a loop serves every length, where PyTorch's decomposition writes all steps out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import zenith
from zenith import nn
from zenith.errors import UnsupportedError, user_line
from zenith.numpy.typing import Array
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once
from zenith.torch.recurrent import NAMESPACE, STATES

Layers = Callable[..., tuple[Array, ...]]


def _grouped(params: Sequence[Array], groups: int) -> list[Sequence[Array]]:
    """PyTorch's flat list of weights: for each layer and direction one group."""
    size = len(params) // groups
    return [params[i : i + size] for i in range(0, len(params), size)]


def _lstm(x: Array, state: Sequence[Array], groups: Sequence[Sequence[Array]], bidirectional: bool,
          batch_first: bool = False) -> tuple[Array, ...]:  # fmt: skip
    outputs, (h, cells) = nn.lstm(x, groups, (state[0], state[1]), bidirectional, batch_first)
    return outputs, h, cells


def _gru(x: Array, state: Sequence[Array], groups: Sequence[Sequence[Array]], bidirectional: bool,
         batch_first: bool = False) -> tuple[Array, ...]:  # fmt: skip
    return nn.gru(x, groups, state[0], bidirectional, batch_first)


def _rnn(nonlinearity: str) -> Layers:
    def layers(x: Array, state: Sequence[Array], groups: Sequence[Sequence[Array]], bidirectional: bool,
               batch_first: bool = False) -> tuple[Array, ...]:  # fmt: skip
        return nn.rnn(x, groups, state[0], nonlinearity, bidirectional, batch_first)

    return layers


def _whole(layers: Layers) -> Rule:
    """The rule of PyTorch's own operator, of all layers."""

    @rounded_once
    def rule(
        c: Context, x: Array, state: Array | Sequence[Array], params: Sequence[Array], biases: bool, count: int,
        dropout: float, train: bool, bidirectional: bool, batch_first: bool,
    ) -> tuple[Array, ...]:  # fmt: skip
        if dropout and train and count > 1:
            raise UnsupportedError("aten's operator of recurrent layers draws dropout between them", where=user_line(),
                                   fix="call torch.nn's layers, or torch.lstm and its like")  # fmt: skip
        groups = _grouped(params, count * (2 if bidirectional else 1))
        states = state if isinstance(state, (list, tuple)) else [state]
        return layers(x, states, groups, bidirectional, batch_first)

    return rule


def _layer(layers: Layers) -> Rule:
    """The rule of one layer, in one direction or both."""

    @rounded_once
    def rule(c: Context, x: Array, state: Sequence[Array], params: Sequence[Array],
             bidirectional: bool) -> tuple[Array, ...]:  # fmt: skip
        return layers(x, state, _grouped(params, 2 if bidirectional else 1), bidirectional)

    return rule


def _backward_pass(layers: Layers) -> Rule:
    """The rule of a layer's derivative: the loop is recomputed, then runs in reverse."""

    @rounded_once
    def rule(c: Context, gradients: Sequence[Array], x: Array, state: Sequence[Array], params: Sequence[Array],
             bidirectional: bool) -> tuple[Array, ...]:  # fmt: skip
        def layer(x: Array, state: Sequence[Array], params: Sequence[Array]) -> tuple[Array, ...]:
            return layers(x, state, _grouped(params, 2 if bidirectional else 1), bidirectional)

        _, back = zenith.vjp(layer, x, list(state), list(params))
        by_x, by_state, by_params = back(tuple(gradients))
        return (by_x, *by_state, *by_params)

    return rule


_LAYERS: dict[str, Layers] = {"lstm": _lstm, "gru": _gru, "rnn_tanh": _rnn("tanh"), "rnn_relu": _rnn("relu")}
for _name in STATES:
    RULES[f"{_name}.input"] = _whole(_LAYERS[_name])
    RULES[f"{NAMESPACE}::{_name}"] = _layer(_LAYERS[_name])
    RULES[f"{NAMESPACE}::{_name}_backward"] = _backward_pass(_LAYERS[_name])
