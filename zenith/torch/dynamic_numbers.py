"""Python numbers among a module's arguments, which become inputs of its programs when they come with a second value.

The first value is a constant, as in every export: ints mostly say how a model is built. From the second one on an int
is exported as the length of a tensor without elements, which is a size like others, and a float as the element of one
without axes. Where the module does in Python what fixes the number (``range(n)``, a branch on a float), or the rules of
operators do, each value has a program of its own. TorchDynamo has the same policy (``specialize_int``,
``automatic_dynamic_shapes``).

An export in which a number is an input is believed only where it agrees with the one in which it is a constant: nobody
else would see that a module asks for the type of its argument.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch.export.graph_signature import InputKind
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree

from zenith.api.forms import exactly
from zenith.errors import is_library
from zenith.torch.calls import ModuleCall, may_be_dynamic
from zenith.torch.conditions import tensor_inputs

_ITEM = torch.ops.aten._local_scalar_dense.default
_SLICE, _END = torch.ops.aten.slice.Tensor, 2**63 - 1
_CHECKS = ("_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")  # of numbers: they compute nothing
_SHORT = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.uint16, torch.uint32)
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class NumbersAreFixed(Exception):
    """A program needs the numbers at these paths as constants."""

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(*paths)
        self.paths = tuple(paths)


@contextmanager
def numbers_fixed(call: ModuleCall) -> Iterator[None]:
    """What fails within this block fails because numbers of the call are inputs, if some are.

    If it fails without them as well, the user is told then. So does an export in which the module caught the error of a
    float whose value it asked for. Of several numbers floats are suspected first, on which no export branches.
    """
    asked: list[object] = []

    def note(error: Any, *args: Any) -> None:
        asked.append(error)
        own(error, *args)

    own = GuardOnDataDependentSymNode.__init__
    floats = [call.paths[place] for place, number in call.numbers.items() if isinstance(number, float)]
    try:
        with patch.object(GuardOnDataDependentSymNode, "__init__", note) if floats else nullcontext():
            yield
    except Exception as error:
        if not call.numbers or isinstance(error, Warning | MemoryError | NumbersAreFixed):
            raise
        raise NumbersAreFixed(floats or call.form.dynamic) from error
    if asked:
        raise NumbersAreFixed(floats)


class DynamicNumbers:
    """Which numbers of a module's arguments are inputs, by their paths, as calls come."""

    def __init__(self) -> None:
        self._first: dict[str, object] = {}
        self._varying: set[str] = set()
        self._fixed: set[str] = set()

    def see(self, call: ModuleCall) -> frozenset[str]:
        """The paths of a call's numbers that are inputs, now that its values are known, too."""
        found = [(path, value) for path, value in call.form.values if may_be_dynamic(value)]
        for path, value in found:
            if self._first.setdefault(path, exactly(value)) != exactly(value):
                self._varying.add(path)
        return frozenset(path for path, _ in found if path in self._varying - self._fixed)

    def fix(self, paths: Iterable[str]) -> None:
        """Have each value of these numbers be a constant of a program of its own."""
        self._fixed.update(paths)


def read_numbers(program: Any, numbers: Mapping[int, int | float]) -> None:
    """In an export, have a number be the float of its tensor: nothing else makes numbers of tensors' values."""
    inputs = tensor_inputs(program)
    for place, number in numbers.items():
        if isinstance(number, float):
            for user in inputs[place].users:
                if user.target is _ITEM:
                    user.target = torch.sym_float


def ask_for_types(module: torch.nn.Module) -> bool:
    """Whether a forward outside of libraries has ``type(...)``, which alone tells a symbol from a number there."""
    own = {code for part in module.modules() if (code := getattr(type(part).forward, "__code__", None)) is not None}
    return any("type" in code.co_names for code in own if not is_library(code.co_filename))


def check_agreement(call: ModuleCall, exported: Any, constant: Any) -> None:
    """NumbersAreFixed unless an export with a call's numbers as inputs computes what one with these constants does.

    That is: the same operators in the same order, of the same operands. Parts that are graphs of their own are not
    compared, a float that is returned has no tensor, and of a number that an integer type may not hold PyTorch tells
    when it is a constant: none of these agrees.
    """
    ints = [place for place, number in call.numbers.items() if isinstance(number, int)]
    if fixed := [call.paths[place] for place in ints if exported.sizes[place][0] is not None]:
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


def _operations(program: Any, numbers: Mapping[int, int | float]) -> Iterator[Any]:
    """What an export computes with tensors, in values that tell the same of two exports for calls of equal sizes."""
    known: dict[torch.fx.Node, Any] = {}
    read = _reader(program, numbers)
    inputs = {node: place for place, node in enumerate(tensor_inputs(program))}
    specs = zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs, strict=True)
    made = 0
    for node, spec in specs:
        if node not in inputs:
            lifted = program.constants.get(spec.target) if spec.kind is InputKind.CONSTANT_TENSOR else None
            known[node] = spec.target if lifted is None else _Contents(lifted)
        elif inputs[node] not in numbers:
            known[node], made = made, made + 1

    def told(value: Any) -> Any:
        if not isinstance(value, torch.fx.Node):
            return value
        example = value.meta.get("val")
        return read(example) if isinstance(example, _SYMBOLS) else ("tensor", known[value])

    for node in program.graph.nodes:
        if node.op not in ("call_function", "output") or _is_of_numbers(node):
            continue
        operands = pytree.tree_map(told, _with_defaults(node))
        if node.target is _SLICE and (operands["start"], operands["end"], operands["step"]) == (0, _END, 1):
            known[node] = known[node.args[0]]  # ``x[:, :n]`` takes all of x first, or not, as it is recorded
            continue
        known[node], made = made, made + 1
        yield str(node.target), operands


def _with_defaults(node: torch.fx.Node) -> dict[Any, Any]:
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


def _reader(program: Any, numbers: Mapping[int, int | float]) -> Callable[[Any], Any]:
    """What gives a symbolic number's value in the call that was exported."""
    inputs = tensor_inputs(program)
    values: dict[Any, Any] = {}
    for place, number in numbers.items():
        for user in inputs[place].users:
            if user.target is torch.sym_float:
                values[user.meta["val"].node.expr] = number

    def read(number: Any) -> Any:
        environment = number.node.shape_env
        expression = environment.replace(number.node.expr)
        return expression.subs({**environment.backed_var_to_val, **values})

    return read
