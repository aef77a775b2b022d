"""Recurrent layers as one operator: a loop serves every length, where PyTorch's decomposition writes all steps out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import zenith
from zenith import nn
from zenith.errors import UnsupportedError, user_line
from zenith.torch.aten.rules import RULES, Context, Rule, rounded_once
from zenith.torch.recurrent import NAMESPACE, STATES

Layers = Callable[..., tuple[Any, ...]]


def _grouped(params: Sequence[Any], groups: int) -> list[Sequence[Any]]:
    """PyTorch's flat list of weights: for each layer and direction one group."""
    size = len(params) // groups
    return [params[i : i + size] for i in range(0, len(params), size)]


def _lstm(x: Any, state: Sequence[Any], groups: Any, bidirectional: bool, batch_first: bool = False) -> tuple[Any, ...]:
    outputs, (h, cells) = nn.lstm(x, groups, (state[0], state[1]), bidirectional, batch_first)
    return outputs, h, cells


def _gru(x: Any, state: Sequence[Any], groups: Any, bidirectional: bool, batch_first: bool = False) -> tuple[Any, ...]:
    return nn.gru(x, groups, state[0], bidirectional, batch_first)


def _rnn(nonlinearity: str) -> Layers:
    def layers(
        x: Any, state: Sequence[Any], groups: Any, bidirectional: bool, batch_first: bool = False
    ) -> tuple[Any, ...]:
        return nn.rnn(x, groups, state[0], nonlinearity, bidirectional, batch_first)

    return layers


def _whole(layers: Layers) -> Rule:
    """The rule of PyTorch's own operator, of all layers."""

    @rounded_once
    def rule(
        c: Context, x: Any, state: Any, params: Sequence[Any], biases: bool, count: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
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
    def rule(c: Context, x: Any, state: Sequence[Any], params: Sequence[Any], bidirectional: bool) -> Any:
        return layers(x, state, _grouped(params, 2 if bidirectional else 1), bidirectional)

    return rule


def _backward_pass(layers: Layers) -> Rule:
    """The rule of a layer's derivative: the loop is recomputed, then runs in reverse."""

    @rounded_once
    def rule(
        c: Context, gradients: Sequence[Any], x: Any, state: Sequence[Any], params: Sequence[Any], bidirectional: bool
    ) -> Any:
        def layer(x: Any, state: Sequence[Any], params: Sequence[Any]) -> tuple[Any, ...]:
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
