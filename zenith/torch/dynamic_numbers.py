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
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.api.forms import exactly
from zenith.torch.calls import ModuleCall, may_be_dynamic
from zenith.torch.conditions import tensor_inputs

_ITEM = torch.ops.aten._local_scalar_dense.default
_SLICE, _END = torch.ops.aten.slice.Tensor, 2**63 - 1
_CHECKS = ("_assert_scalar", "sym_constrain_range", "sym_constrain_range_for_size")  # of numbers: they compute nothing
_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


class NumbersAreFixed(Exception):
    """A program needs the numbers at these paths as constants."""

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(*paths)
        self.paths = tuple(paths)


@contextmanager
def numbers_fixed(call: ModuleCall) -> Iterator[None]:
    """What fails within this block fails because numbers of the call are inputs, if some are.

    If it fails without them as well, the user is told then.
    """
    try:
        yield
    except Exception as error:
        if not call.numbers or isinstance(error, Warning):
            raise
        raise NumbersAreFixed(call.form.dynamic) from error


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


def fixed_numbers(call: ModuleCall, sizes: tuple[tuple[int | None, ...], ...]) -> list[str]:
    """The paths of the ints among a call's numbers that an export has fixed; ``sizes`` are its numbers for sizes."""
    return [call.paths[n] for n, number in call.numbers.items() if type(number) is int and sizes[n][0] is not None]


def agree(program: Any, numbers: Mapping[int, int | float], constant: Any) -> bool:
    """Whether an export that takes ``numbers`` computes for these what one computes in which they are constants.

    That is: the same operators in the same order, of the same operands. Parts that are graphs of their own are not
    compared, and a float that is returned has no tensor: neither agrees.
    """
    floats = [n for n in program.graph.output_node().all_input_nodes if isinstance(n.meta.get("val"), torch.SymFloat)]
    if floats or any(node.op == "get_attr" for node in program.graph.nodes):
        return False
    return list(_operations(program, numbers)) == list(_operations(constant, {}))


def _operations(program: Any, numbers: Mapping[int, int | float]) -> Iterator[Any]:
    """What an export computes with tensors, in values that tell the same of two exports for calls of equal sizes."""
    known: dict[torch.fx.Node, Any] = {}
    read = _reader(program, numbers)
    inputs = {node: place for place, node in enumerate(tensor_inputs(program))}
    specs = zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs, strict=True)
    made = 0
    for node, spec in specs:
        if node not in inputs:
            known[node] = spec.target
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
