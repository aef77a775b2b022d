"""The two ends of a graph of AOTAutograd: what its placeholders and results are to a Zenith program.

Programs know dense arrays in row-major order and sizes that belong to arrays. PyTorch's graphs also take and give
tensors in other orders of axes (a transposed view, ``channels_last``) and bare sizes (``SymInt``). Here each becomes
the other without a copy: a tensor is permuted to the order of its memory before the call and the array transposed back
inside the program, where that is free, and a bare size comes as the length of a tensor without elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add, mul
from typing import Any

import sympy
import torch
from torch._guards import detect_fake_mode
from torch.fx.experimental.symbolic_shapes import statically_known_true
from torch.utils import _pytree as pytree
from torch.utils._sympy import functions

from zenith.arrays import torch_adapter
from zenith.backends.lower.nest import is_word
from zenith.errors import DTypeError, user_line
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.types import DType, int64, uint8
from zenith.torch.dynamo.layouts import Blocked, Layout, layout_of
from zenith.trace import InputSpec


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor argument: its element type, sizes, and layout."""

    dtype: DType
    sizes: tuple[Dim, ...]
    layout: Layout | Blocked

    def leaf(self, value: torch.Tensor) -> torch.Tensor:
        """The argument as the program takes it; PyTorch may have put off to conjugate or to negate its elements."""
        if value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg()
        return self.layout.in_memory(value)

    def spec(self, name: str, leaf: torch.Tensor) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, self.dtype, self.layout.shape(self.sizes), tuple(leaf.shape))


@dataclass(frozen=True, slots=True)
class Size:
    """A bare size, which a tensor without elements has as its length, on the device of the graph's tensors.

    Of a negative number, of which sizes may be computed as well, the symbol and the length are those of its opposite.
    """

    symbol: Dim
    device: torch.device

    def leaf(self, value: int) -> torch.Tensor:
        """The tensor."""
        return torch.empty((abs(value), 0), dtype=torch.uint8, device=self.device)

    def spec(self, name: str, leaf: torch.Tensor) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, uint8, (self.symbol, dim(0)), tuple(leaf.shape))


@dataclass(frozen=True, slots=True)
class Number:
    """A Python number that is no size: a weak argument without axes."""

    def leaf(self, value: int) -> int:
        """The number."""
        return int(value)

    def spec(self, name: str, leaf: int) -> InputSpec:
        """What the program is traced with."""
        return InputSpec(name, int64, (), (), weak=True)


Argument = Tensor | Size | Number


class Sizes:
    """Zenith's formulas for PyTorch's symbolic sizes; one that has no formula gets a symbol of its own."""

    def __init__(self) -> None:
        self._known: dict[Any, Dim] = {}

    def know(self, size: Any, formula: Dim) -> None:
        """Have ``formula`` stand for a ``SymInt``, unless something does."""
        self._known.setdefault(size.node.shape_env.replace(size.node.expr), formula)

    def of(self, size: Any) -> Dim:
        """The formula of an ``int`` or ``SymInt``."""
        expression = None if isinstance(size, int) else size.node.shape_env.replace(size.node.expr)
        return dim(size) if expression is None else self._formula(expression)

    def negate(self, number: torch.SymInt) -> Dim:
        """A symbol for the opposite of a negative number, which formulas are written with from now on."""
        expression = number.node.expr
        if expression not in self._known:
            self._known[expression] = dim(0) - symbol(self._name(f"minus_{expression}"))
        return dim(0) - self._known[expression]

    def _formula(self, expression: Any) -> Dim:
        if expression.is_Integer:
            return dim(int(expression))
        found = self._known.get(expression)
        if found is None:
            kind = next((k for k in _FORMULAS if isinstance(expression, k)), None)
            if kind is None or (kind is sympy.Pow and not expression.exp.is_Integer):
                found = symbol(self._name(str(expression) if expression.is_Symbol else "size"))
            elif kind is sympy.Pow:
                found = reduce(mul, [self._formula(expression.base)] * int(expression.exp))
            else:
                found = reduce(_FORMULAS[kind], map(self._formula, expression.args))
            self._known[expression] = found
        return found

    def _name(self, wanted: str) -> str:
        taken = {str(size) for size in self._known.values()}
        while is_word(wanted) or wanted in taken:
            wanted += "_"
        return wanted


_FORMULAS: Mapping[Any, Callable[[Dim, Dim], Dim]] = {
    sympy.Add: add,
    sympy.Mul: mul,
    sympy.Pow: mul,
    functions.FloorDiv: Dim.__floordiv__,
    functions.PythonMod: Dim.__mod__,
    functions.Mod: Dim.__mod__,
    functions.Max: maximum,
    functions.Min: minimum,
}


def arguments_of(graph: torch.fx.Graph, sizes: Sizes) -> dict[torch.fx.Node, Argument]:
    """What each placeholder that anybody reads is, in order; a size that tensors tell is not needed as one."""
    found: dict[torch.fx.Node, Argument] = {}
    told: set[str] = set()
    device = device_of(graph)
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol and _is_negative(value):
            found[node] = Size(sizes.negate(value), device)
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and node.users:
            dtype, shape = element_type(value, f"argument {node.name}"), tuple(map(sizes.of, value.shape))
            found[node] = Tensor(dtype, shape, layout_of(node))
            told |= {str(size) for size in shape if str(size).isidentifier()}
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and node not in found:
            size = sizes.of(value)
            if not _is_size(value):
                found[node] = Number()
            elif str(size).isidentifier() and str(size) not in told:
                told.add(str(size))
                found[node] = Size(size, device)
    return {node: found[node] for node in graph.nodes if node in found}


def _is_size(value: torch.SymInt) -> bool:
    """Whether a number is not negative, so that sizes may be made of it; PyTorch compiles anew where that changes."""
    return statically_known_true(value >= 0) or (value.node.has_hint() and bool(value >= 0))


def _is_negative(value: torch.SymInt) -> bool:
    return not statically_known_true(value >= 0) and value.node.has_hint() and bool(value < 0)


def with_examples(graph: torch.fx.Graph) -> torch.fx.Graph:
    """The graph, in which every node tells what its results look like; the partition leaves that out of some."""
    mode = detect_fake_mode([node.meta.get("val") for node in graph.find_nodes(op="placeholder")])
    for node in graph.nodes:
        if node.op == "call_function" and "val" not in node.meta and mode is not None:
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: n.meta.get("val"))
            with mode:
                node.meta["val"] = node.target(*args, **kwargs)
    return graph


def element_type(example: torch.Tensor, what: str) -> DType:
    """The element type of a tensor; DTypeError when Zenith has none."""
    dtype = torch_adapter().dtype(example)
    if dtype is None or example.layout != torch.strided:
        raise DTypeError(f"{what} is {example.dtype} with layout {example.layout}, which Zenith does not compute with",
                         where=user_line(), fix="leave that part of the model out: torch.compiler.disable")  # fmt: skip
    return dtype


def device_of(graph: torch.fx.Graph) -> torch.device:
    """Where the first tensor is that a graph takes or makes."""
    values = (node.meta.get("val") for node in graph.nodes)
    tensors = (leaf for value in values for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return next((tensor.device for tensor in tensors), torch.device("cpu"))
