"""Recurrent layers, kept whole: a loop serves every length, where PyTorch's decomposition writes all steps out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zenith import nn
from zenith.errors import UnsupportedError
from zenith.torch.aten.rules import RULES, Context, rounded_once, rule


def _grouped(params: Sequence[Any], layers: int, bidirectional: bool) -> list[Sequence[Any]]:
    """PyTorch's flat list of weights: for each layer and direction one group."""
    size = len(params) // (layers * (2 if bidirectional else 1))
    return [params[i : i + size] for i in range(0, len(params), size)]


def _refuse_dropout(p: float, train: bool) -> None:
    if p and train:
        raise UnsupportedError("dropout between recurrent layers in training mode is not supported",
                               fix="write layers with nn.Dropout between them, or call module.eval()")  # fmt: skip


@rule("lstm.input", "zenith::lstm")
@rounded_once
def _lstm(
    c: Context, x: Any, state: Sequence[Any], params: Sequence[Any], biases: bool, layers: int, dropout: float,
    train: bool, bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    _refuse_dropout(dropout if layers > 1 else 0.0, train)
    first = (state[0], state[1])
    outputs, (h, cells) = nn.lstm(x, _grouped(params, layers, bidirectional), first, bidirectional, batch_first)
    return outputs, h, cells


@rule("gru.input", "zenith::gru")
@rounded_once
def _gru(
    c: Context, x: Any, state: Any, params: Sequence[Any], biases: bool, layers: int, dropout: float, train: bool,
    bidirectional: bool, batch_first: bool,
) -> Any:  # fmt: skip
    _refuse_dropout(dropout if layers > 1 else 0.0, train)
    return nn.gru(x, _grouped(params, layers, bidirectional), _only(state), bidirectional, batch_first)


def _rnn(nonlinearity: str) -> Any:
    @rounded_once
    def run(
        c: Context, x: Any, state: Any, params: Sequence[Any], biases: bool, layers: int, dropout: float, train: bool,
        bidirectional: bool, batch_first: bool,
    ) -> Any:  # fmt: skip
        _refuse_dropout(dropout if layers > 1 else 0.0, train)
        weights = _grouped(params, layers, bidirectional)
        return nn.rnn(x, weights, _only(state), nonlinearity, bidirectional, batch_first)

    return run


def _only(state: Any) -> Any:
    """The one state, which an export's own operator has in a list."""
    return state[0] if isinstance(state, (list, tuple)) else state


for _name in ("tanh", "relu"):
    RULES |= dict.fromkeys((f"rnn_{_name}.input", f"zenith::rnn_{_name}"), _rnn(_name))
