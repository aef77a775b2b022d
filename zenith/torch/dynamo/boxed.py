"""What AOTAutograd calls: a graph as Zenith compiles it, or as PyTorch computes it, from some moment on or for a call.

PyTorch computes a graph from the moment that compiling it fails, and calls with tangents, of forward-mode
differentiation (``torch.autograd.forward_ad``), which programs do not have.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.autograd import forward_ad

from zenith.arrays import torch_adapter
from zenith.errors import UnsupportedError
from zenith.torch.dynamo.eager_graphs import EagerGraph, NotCompiled, eager_after
from zenith.torch.dynamo.report import Graph, remember


def boxed(made: Graph, module: torch.fx.GraphModule, fallback: str) -> Callable[[list[object]], list[object]]:
    """A graph of AOTAutograd as a function of its arguments in a list, which it empties."""
    call = partial(_Runner(remember(made), module, fallback).run)
    call._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd asks for it
    return call


class _Runner:
    def __init__(self, made: Graph, module: torch.fx.GraphModule, fallback: str) -> None:
        self._made, self._module, self._fallback = made, module, fallback
        self._with_tangents: EagerGraph | None = None

    def run(self, args: list[object]) -> list[object]:
        """The graph's results."""
        if forward_ad._current_level >= 0 and any(map(_has_tangent, args)):
            return self._follow_tangents(args)
        try:
            return self._made(args)
        except NotCompiled as failure:
            given, cause = list(failure.args), failure.__cause__
        assert cause is not None, "it says why"
        self._made = remember(eager_after(cause, self._module, self._made.__name__, self._fallback))
        return self._made(given)

    def _follow_tangents(self, args: list[object]) -> list[object]:
        if self._with_tangents is None:
            error = UnsupportedError("a program has no tangents of forward-mode differentiation",
                                     fix="differentiate by zenith.jvp")  # fmt: skip
            made = eager_after(error, self._module, f"{self._made.__name__}_with_tangents", self._fallback)
            self._with_tangents = made
            remember(made)
        return self._with_tangents(args)


def _has_tangent(value: object) -> bool:
    return isinstance(value, torch.Tensor) and torch_adapter().has_tangent(value)
