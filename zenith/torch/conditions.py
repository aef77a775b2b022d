"""What an export assumes, as conditions on the sizes of a call: ranges, equalities, and the branches that it took.

torch.export states them in symbols of its own, which become the names that a call's sizes have, and in functions of
``math`` and ``torch``, which become Python's own: conditions are also printed into programs that import neither.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._sympy.printers import PythonPrinter

from zenith.api.binding import SourceGuard

# Guards about strides, and those that an export's own checks of its arguments raise when it is decomposed.
_IRRELEVANT = (
    *("contiguous", "stride", "_reshape_view_helper_core_alg", "non_overlapping", "channels_last"),
    "in _call_impl",
)


def tensor_inputs(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """The placeholders of the call's tensors, in order."""
    kinds = [spec.kind for spec in program.graph_signature.input_specs]
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    user = torch.export.graph_signature.InputKind.USER_INPUT
    return [n for n, kind in zip(placeholders, kinds, strict=True) if kind == user]


def fixed_size(size: Any) -> int | None:
    """The number that a size is in every call of an export, or None."""
    if isinstance(size, int):
        return size
    expression = size.node.shape_env.replace(size.node.expr)
    return int(expression) if expression.is_number else None


def conditions_of(
    program: torch.export.ExportedProgram, examples: Sequence[torch.Tensor], labels: Sequence[Sequence[str]]
) -> Iterator[SourceGuard]:
    """Ranges and equalities of the export's symbols, and the guards of the module's branches, as assumptions.

    ``labels`` has the name of every axis that is free and the number of every one that is fixed.
    """
    symbols: dict[str, str] = {}
    axes = [(n, s) for own, e in zip(labels, examples, strict=True) for n, s in zip(own, e.shape, strict=True)]
    for name, size in axes:
        if fixed_size(size) is None and str(size).isidentifier():
            symbols.setdefault(str(size), name)
    for name, size in axes:
        if fixed_size(size) is None and symbols.get(str(size)) != name:  # a repeated symbol, or a formula of others
            yield SourceGuard(f"{name} == {_renamed(str(size), symbols)}", False, "found equal by torch.export")
    for symbol, bounds in program.range_constraints.items():
        if str(symbol) in symbols:
            yield from _range(symbols[str(symbol)], bounds)
    for free in _sizes_not_squeezed(program):
        yield SourceGuard(f"{_renamed(free, symbols)} != 1", False, "torch.squeeze would remove the axis")
    branches = _branches(program, symbols)
    for source in _all_guards(program, labels) if branches is None else branches:
        yield SourceGuard(in_python(source), False, "the module branches on it, or torch.export does")


def _branches(program: torch.export.ExportedProgram, symbols: Mapping[str, str]) -> list[str] | None:
    """The guards of the export that matter to results, in the names of sizes; None when one names something else.

    PyTorch also branches on sizes to choose strides, which Zenith does not have: those guards would only cost exports.
    """
    example = next((n.meta["val"] for n in tensor_inputs(program)), None)
    environment = getattr(getattr(example, "fake_mode", None), "shape_env", None)
    if environment is None:
        return None
    found: dict[str, None] = {}
    for guard in environment.guards:
        if any(word in str(guard.sloc) for word in _IRRELEVANT):
            continue
        expression = environment.replace(guard.expr)
        if expression == True:  # noqa: E712  sympy's own truth: the export fixed the sizes in it
            continue
        text = PythonPrinter().doprint(expression)
        if not set(re.findall(r"\b[a-z]+\d+\b", text)) <= symbols.keys():
            return None
        found[_renamed(text, symbols)] = None
    return list(found)


def _all_guards(program: torch.export.ExportedProgram, labels: Sequence[Sequence[str]]) -> list[str]:
    """Every guard about sizes that torch.export wrote down (``L['tensors'][0].size()[1] != 1``), in our names."""
    size = re.compile(r"L\['tensors'\]\[(\d+)\]\.size\(\)\[(\d+)\]")
    sources = [size.sub(lambda m: labels[int(m[1])][int(m[2])], guard) for guard in program._guards_code]
    return [s.replace("Max(", "max(").replace("Min(", "min(") for s in sources if "L[" not in s]


def _sizes_not_squeezed(program: torch.export.ExportedProgram) -> Iterator[str]:
    """The free sizes of axes that a squeeze was asked to remove: the export assumes that they are not 1."""
    for node in program.graph.nodes:
        if getattr(node.target, "overloadpacket", None) in (torch.ops.aten.squeeze, torch.ops.aten.squeeze_copy):
            shape = node.args[0].meta["val"].shape
            axes = node.args[1] if len(node.args) > 1 else range(len(shape))
            asked = [shape[a] for a in ([axes] if isinstance(axes, int) else axes) if shape]
            yield from (str(size) for size in asked if fixed_size(size) is None)


def _range(name: str, bounds: Any) -> Iterator[SourceGuard]:
    if bounds.lower > 0:
        yield SourceGuard(f"{name} >= {int(bounds.lower)}", False, "the range of torch.export")
    if bounds.upper < 2**62:
        yield SourceGuard(f"{name} <= {int(bounds.upper)}", False, "the range of torch.export")


def _renamed(text: str, symbols: Mapping[str, str]) -> str:
    return re.sub(r"[^\W\d]\w*", lambda m: symbols.get(m[0], {"Max": "max", "Min": "min"}.get(m[0], m[0])), text)


# How torch.export writes functions of sizes, and the same in Python's operators and builtins.
_FUNCTIONS = {
    "torch.sym_float": "float({})", "torch._sym_sqrt": "({}) ** 0.5", "torch.sym_ite": "({1} if {0} else {2})",
    "math.floor": "int(({}) // 1)", "math.ceil": "-int(-({}) // 1)", "math.trunc": "int({})",
    "math.sqrt": "({}) ** 0.5", "torch.sym_max": "max({}, {})",
    "torch.sym_min": "min({}, {})",
}  # fmt: skip


def in_python(source: str) -> str:
    """A condition in operators and builtins alone."""
    return ast.unparse(_InPython().visit(ast.parse(source, mode="eval")))


class _InPython(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A call of a function in the table, its arguments first."""
        self.generic_visit(node)
        form = _FUNCTIONS.get(ast.unparse(node.func))
        if form is None:
            return node
        return ast.parse(form.format(*map(ast.unparse, node.args)), mode="eval").body
