"""Recurrent layers as operators of their own: loops of every length in programs, in both passes.

``torch.export`` and TorchDynamo write out a step of ``torch.lstm`` and its like for each element of a sequence,
which fixes its length. Here each layer, in one direction or both, is an operator that says only how large its results
are and what its derivative is: an operator, too. Dropout between layers is PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

NAMESPACE = "zenith"
STATES = {"lstm": 2, "gru": 1, "rnn_tanh": 1, "rnn_relu": 1}  # how many states a layer has
LIBRARY = torch.library.Library(NAMESPACE, "DEF")


def in_layers(
    name: str, x: Tensor, state: Tensor | Sequence[Tensor], params: Sequence[Tensor], biases: bool, layers: int,
    dropout: float, train: bool, bidirectional: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """What ``torch.lstm`` and its like compute of padded sequences: one layer after the other, dropout between them.

    TorchDynamo records this function.
    """
    operator = getattr(torch.ops.zenith, name)
    states = [state] if isinstance(state, torch.Tensor) else state
    directions, count = 2 if bidirectional else 1, len(params) // layers
    x = x.transpose(0, 1) if batch_first else x
    ends = []
    for layer in range(layers):
        first = [s[layer * directions : (layer + 1) * directions] for s in states]
        x, *last = operator(x, first, params[layer * count : (layer + 1) * count], bidirectional)
        ends.append(last)
        if dropout and train and layer < layers - 1:
            x = torch.dropout(x, dropout, True)
    lasts = [torch.cat(states) for states in zip(*ends, strict=True)]
    return (x.transpose(0, 1) if batch_first else x, *lasts)


class Undecomposed(TorchFunctionMode):
    """A context that keeps ``torch.lstm``, ``gru``, ``rnn_tanh``, ``rnn_relu`` whole, except on packed sequences."""

    def __torch_function__(self, func: Callable[..., object], types: object, args: tuple[Any, ...] = (),
                           kwargs: Mapping[str, object] | None = None) -> object:  # fmt: skip
        name = getattr(func, "__name__", "")
        if name not in STATES or func != getattr(torch, name) or kwargs or not isinstance(args[3], bool):
            return func(*args, **(kwargs or {}))
        return in_layers(name, *args)


def _sizes(x: Tensor, state: Sequence[Tensor], params: Sequence[Tensor], bidirectional: bool) -> tuple[Tensor, ...]:
    """Results without elements: outputs as wide as both directions' hidden states, and last states."""
    width = state[0].shape[-1] * (2 if bidirectional else 1)
    return (x.new_empty((*x.shape[:-1], width)), *(s.new_empty(s.shape) for s in state))


def _sizes_of_gradients(
    gradients: Sequence[Tensor], x: Tensor, state: Sequence[Tensor], params: Sequence[Tensor], bidirectional: bool
) -> list[Tensor]:
    return [t.new_empty(t.shape) for t in (x, *state, *params)]


def _save_inputs(ctx: Any, inputs: tuple[Any, ...], output: object) -> None:
    x, state, params, ctx.bidirectional = inputs
    ctx.states = len(state)
    ctx.save_for_backward(x, *state, *params)


def _backward_pass(name: str) -> Callable[..., object]:
    """The gradients of a layer's arguments, in their structure: one operator, too."""

    def backward(ctx: Any, *gradients: Tensor) -> tuple[object, ...]:
        x, *rest = ctx.saved_tensors
        state, params = rest[: ctx.states], rest[ctx.states :]
        operator = getattr(torch.ops.zenith, f"{name}_backward")
        by_x, *found = operator(gradients, x, state, params, ctx.bidirectional)
        return by_x, found[: ctx.states], found[ctx.states :], None

    return backward


def _by_torch(name: str) -> Callable[..., tuple[Tensor, ...]]:
    """A layer as PyTorch computes it, where it is asked to: in what Zenith leaves to it."""

    def layer(x: Tensor, state: Sequence[Tensor], params: Sequence[Tensor], bidirectional: bool) -> tuple[Tensor, ...]:
        biases = len(params) // (2 if bidirectional else 1) > 3
        states = state if name == "lstm" else state[0]
        found: tuple[Tensor, ...] = getattr(torch, name)(x, states, params, biases, 1, 0.0, False, bidirectional, False)
        return found

    return layer


def _backward_by_torch(name: str) -> Callable[..., list[Tensor]]:
    layer = _by_torch(name)

    def back(gradients: Sequence[Tensor], x: Tensor, state: Sequence[Tensor], params: Sequence[Tensor],
             bidirectional: bool) -> list[Tensor]:  # fmt: skip
        with torch.enable_grad():
            leaves = [t.detach().requires_grad_() for t in (x, *state, *params)]
            first, rest = leaves[0], leaves[1:]
            results = layer(first, rest[: len(state)], rest[len(state) :], bidirectional)
            return list(torch.autograd.grad(results, leaves, list(gradients)))

    return back


def _define() -> None:
    inputs = "Tensor x, Tensor[] state, Tensor[] params, bool bidirectional"
    for name, states in STATES.items():
        results = ", ".join(["Tensor"] * (states + 1))
        LIBRARY.define(f"{name}({inputs}) -> ({results})")
        LIBRARY.define(f"{name}_backward(Tensor[] gradients, {inputs}) -> Tensor[]")
        LIBRARY.impl(name, _by_torch(name), "CompositeExplicitAutograd")
        LIBRARY.impl(f"{name}_backward", _backward_by_torch(name), "CompositeExplicitAutograd")
        own = f"{NAMESPACE}::{name}"
        torch.library.register_fake(own, _sizes, lib=LIBRARY)
        torch.library.register_fake(f"{own}_backward", _sizes_of_gradients, lib=LIBRARY)
        torch.library.register_autograd(own, _backward_pass(name), setup_context=_save_inputs, lib=LIBRARY)


_define()
