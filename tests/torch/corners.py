"""Derivatives of each result of a function at corners: Zenith's against those of PyTorch's autograd.

A corner is a point where an operator's derivative is a matter of convention, as at zeros, ties, equal rows and ends of
domains. The function is exported and traced once, and differentiated for each result by itself: a derivative that is no
number would hide all others in a sum.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch.utils import _pytree as pytree

import zenith
from tests.torch.function import Function
from zenith.arrays import torch_adapter
from zenith.errors import ZenithError
from zenith.ir.interpret import interpret
from zenith.ir.types import has_derivative
from zenith.passes.dce import dce
from zenith.torch.calls import as_tensor
from zenith.transforms.reverse import vjp_graph

PATTERN = torch.tensor([0.0, 1.0, 1.0, -1.0, 0.0, 2.0, -1.0])


def zeros(x):
    return torch.zeros_like(x)


def ones(x):
    return torch.ones_like(x)


def negative(x):
    return -torch.ones_like(x)


def steps(x):
    """Small whole numbers with many ties."""
    count = max(x.numel(), 1)
    return PATTERN.repeat(count // len(PATTERN) + 1)[: x.numel()].reshape(x.shape).to(x.dtype)


CORNERS = (zeros, ones, negative, steps)


@dataclass(frozen=True)
class Difference:
    """A derivative that is not PyTorch's, of a result by an argument; ``found`` may be the text of an error."""

    operator: str
    result: int
    argument: int
    found: object
    expected: object


class Derivatives:
    """The derivatives of a function's results, with and without Zenith."""

    def __init__(self, function, args):
        self.function, self.args = function, args
        fast = zenith.from_torch(Function(function), tuple(args), backend="reference")
        call = fast._programs.calls.flatten(tuple(args), {})
        self.graph = fast._programs._build_with_weights(
            call, fast._programs.mode, fast._programs.weights
        ).program.traced.graph
        self.smooth = [t.is_floating_point() or t.is_complex() for t in args]
        self.backward = cache(self._backward)

    def differences(self, corner):
        """How many results were compared, and what derivatives differ."""
        given = [corner(a) if s else a for a, s in zip(self.args, self.smooth, strict=True)]
        compared, found = 0, []
        tracked, results = self._results(given)
        for index, result in enumerate(results):
            if result.requires_grad and has_derivative(self.graph.outputs[index].type):
                compared += 1
                found += self._of_result(index, result, given, tracked)
        return compared, found

    def _results(self, given):
        """The results of PyTorch, with all arguments tracked, or the first of them, where PyTorch takes that."""
        for asked in (self.smooth, [n == self.smooth.index(True) for n in range(len(given))]):
            tracked = [g.clone().requires_grad_(a) for g, a in zip(given, asked, strict=True)]
            try:
                results = pytree.tree_leaves(self.function(*tracked))
                return tracked, [r for r in results if isinstance(r, torch.Tensor)]
            except RuntimeError:
                continue
        return given, []

    def _of_result(self, index, result, given, tracked):
        weights = np.cos(np.arange(result.numel()) * 0.7 + 0.3).reshape(tuple(result.shape))
        cotangent = torch.tensor(weights).to(result.dtype)
        asked = [t for t in tracked if t.requires_grad]
        name = type(result.grad_fn).__name__
        try:
            expected = torch.autograd.grad(result, asked, cotangent, allow_unused=True, retain_graph=True)
        except RuntimeError:  # PyTorch has no derivative
            return []
        arrays = [torch_adapter().numpy(t.detach().contiguous()) for t in (*given, cotangent)]
        try:
            own = interpret(self.backward(index), *arrays)
        except ZenithError as error:
            return [Difference(name, index, 0, str(error), "a derivative")]
        own = [f for f, t in zip(own, (t for t, s in zip(tracked, self.smooth, strict=True) if s), strict=True)
               if t.requires_grad]  # fmt: skip
        pairs = enumerate(zip(own, expected, asked, strict=True))
        found = [(n, as_tensor(f).conj(), torch.zeros_like(a) if e is None else e) for n, (f, e, a) in pairs]
        return [Difference(name, index, n, f, e) for n, f, e in found if not agree(f, e)]

    def _backward(self, index):
        """The graph from arguments and the cotangent of one result to the cotangents of arguments."""
        count = len(self.graph.outputs)
        joint = vjp_graph(self.graph, self.smooth, [index == number for number in range(count)])
        joint.set_outputs(joint.outputs[count:])
        return dce(joint)


def agree(found, expected):
    """Whether a derivative is PyTorch's wherever that is a number."""
    known = torch.isfinite(expected)
    tolerance = 2e-2 if expected.dtype.itemsize == 2 else 2e-4
    return torch.allclose(found[known], expected[known], rtol=tolerance, atol=tolerance / 10)
