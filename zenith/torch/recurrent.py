"""Recurrent layers as operators of their own while a module is exported.

``torch.export`` writes out a step of ``torch.lstm`` and its like for each place of a sequence, which fixes its length.
Under :class:`KeptWhole` they are recorded as operators that say only how large their results are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

NAMESPACE = "zenith"
_STATES = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}  # how many states a layer has
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")


def _sizes(x: Any, state: Sequence[Any], params: Sequence[Any], *options: Any) -> tuple[Any, ...]:
    """Results without elements, for an export: outputs as wide as all directions' hidden states, and last states."""
    _biases, _layers, _dropout, _train, bidirectional, _batch_first = options
    width = state[0].shape[-1] * (2 if bidirectional else 1)
    return (x.new_empty((*x.shape[:-1], width)), *(torch.empty_like(s) for s in state))


def _define() -> None:
    for name, states in _STATES.items():
        results = ", ".join(["Tensor"] * (states + 1))
        _LIBRARY.define(
            f"{name}(Tensor x, Tensor[] state, Tensor[] params, bool biases, int layers, float dropout, bool train, "
            f"bool bidirectional, bool batch_first) -> ({results})"
        )
        torch.library.register_fake(f"{NAMESPACE}::{name}", _sizes, lib=_LIBRARY)


_define()


class KeptWhole(TorchFunctionMode):
    """A context in which ``torch.lstm``, ``gru``, ``rnn_tanh`` and ``rnn_relu`` of padded sequences stay whole."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        if name not in _STATES or func != getattr(torch, name) or kwargs or not isinstance(args[3], bool):
            return func(*args, **(kwargs or {}))
        x, state, *rest = args
        return getattr(getattr(torch.ops, NAMESPACE), name)(x, [state] if _STATES[name] == 1 else list(state), *rest)
