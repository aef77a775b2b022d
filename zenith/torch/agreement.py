"""Whether an export in which numbers are inputs computes what one does in which they are constants.

torch.export traces a module's Python with symbols for numbers. No other check would notice that the module asks for the
type of one, which is no ``int`` there, and takes another branch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import InputKind
from torch.utils import _pytree as pytree

from zenith.torch.calls import ModuleCall
from zenith.torch.conditions import tensor_inputs
from zenith.torch.dynamic_numbers import NumbersAreFixed

if TYPE_CHECKING:
    from zenith.torch.export import Exported

_SLICE, _END = torch.ops.aten.slice.Tensor, 2**63 - 1
_CHECKS = ("_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")  # of numbers: they compute nothing
_SHORT = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def check_agreement(call: ModuleCall, exported: Exported, constant: Exported) -> None:
    """NumbersAreFixed unless an export with a call's numbers as inputs computes what one with these constants does.

    That is: the same operators in the same order, on the same operands. Nested graphs are not compared, a float that is
    returned has no tensor, and PyTorch reports the overflow of an integer type only for a constant: none of these
    agrees.
    """
    ints = [index for index, number in call.numbers.items() if isinstance(number, int)]
    if fixed := [call.paths[index] for index in ints if exported.sizes[index][0] is not None]:
        raise NumbersAreFixed(fixed)
    program = exported.program
    floats = [n for n in program.graph.output_node().all_input_nodes if isinstance(n.meta.get("val"), torch.SymFloat)]
    refused = floats or any(node.op == "get_attr" or _may_overflow(node) for node in program.graph.nodes)
    if refused or list(_operations(program, call.numbers)) != list(_operations(constant.program, {})):
        raise NumbersAreFixed(call.form.dynamic)


class _Contents:
    """A tensor that is equal to one of the same elements."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Contents) or self.tensor.dtype != other.tensor.dtype:
            return False
        return torch.equal(self.tensor, other.tensor)

    __hash__ = None  # type: ignore[assignment]


def _operations(program: torch.export.ExportedProgram, numbers: Mapping[int, int | float]) -> Iterator[object]:
    """The operators of an export with their operands, as values that compare equal for two exports of one call."""
    known: dict[torch.fx.Node, object] = {}
    read = _reader(program, numbers)
    inputs = {node: index for index, node in enumerate(tensor_inputs(program))}
    specs = zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs, strict=True)
    count = 0
    for node, spec in specs:
        if node not in inputs:
            lifted = program.constants.get(spec.target) if spec.kind is InputKind.CONSTANT_TENSOR else None
            known[node] = spec.target if lifted is None else _Contents(lifted)
        elif inputs[node] not in numbers:
            known[node], count = count, count + 1

    def operand(value: object) -> object:
        if not isinstance(value, torch.fx.Node):
            return value
        example = value.meta.get("val")
        return read(example) if isinstance(example, _SYMBOLS) else ("tensor", known[value])

    for node in program.graph.nodes:
        if node.op not in ("call_function", "output") or _is_of_numbers(node):
            continue
        operands = pytree.tree_map(operand, _with_defaults(node))
        if node.target is _SLICE and (operands["start"], operands["end"], operands["step"]) == (0, _END, 1):
            known[node] = known[node.args[0]]  # ``x[:, :n]`` takes all of x first, or not, as it is recorded
            continue
        known[node], count = count, count + 1
        yield str(node.target), operands


def _with_defaults(node: torch.fx.Node) -> dict[str, object]:
    """A node's operands by their names, where these are known."""
    schema: Any = getattr(node.target, "_schema", None)
    arguments = [] if schema is None else schema.arguments
    names = [argument.name for argument in arguments] or range(len(node.args))
    defaults = {argument.name: argument.default_value for argument in arguments if argument.has_default_value()}
    given = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
    if node.target is _SLICE:  # which has names for its ends
        given = {name: operand for name, operand in given.items() if operand is not None}
        defaults |= {"start": 0, "end": _END}
    return defaults | given


def _may_overflow(node: torch.fx.Node) -> bool:
    """Whether an operator on short integers takes a number as one of these."""
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return False
    values = [node.meta.get("val"), *(a.meta.get("val") for a in node.all_input_nodes)]
    if not any(isinstance(value, torch.Tensor) and value.dtype in _SHORT for value in values):
        return False
    operands = _with_defaults(node)
    scalars = [operands.get(argument.name) for argument in schema.arguments if "number" in str(argument.type)]
    return any(isinstance(o, torch.fx.Node) and isinstance(o.meta.get("val"), _SYMBOLS) for o in scalars)


def _is_of_numbers(node: torch.fx.Node) -> bool:
    if isinstance(node.meta.get("val"), _SYMBOLS):
        return True
    return getattr(getattr(node.target, "overloadpacket", None), "__name__", "") in _CHECKS


def _reader(program: torch.export.ExportedProgram, numbers: Mapping[int, int | float]) -> Callable[[object], object]:
    """A function from a symbolic number to its value in the call that was exported."""
    inputs = tensor_inputs(program)
    values: dict[object, Any] = {}
    for index, number in numbers.items():
        for user in inputs[index].users:
            if user.target is torch.sym_float:
                values[user.meta["val"].node.expr] = number

    def read(number: Any) -> Any:
        environment = number.node.shape_env
        expression = environment.replace(number.node.expr)
        return expression.subs({**environment.backed_var_to_val, **values})

    return read
