"""Python numbers among a module's arguments, which become inputs of its programs when they come with a second value.

The first value is a constant, as in every export: ints mostly say how a model is built. From the second one on an int
is exported as the length of a tensor without elements, which is a size like others, and a float as the element of one
without axes. Where the module does in Python what fixes the number (``range(n)``, a branch on a float), or the rules of
operators do, each value has a program of its own. TorchDynamo has the same policy (``specialize_int``,
``automatic_dynamic_shapes``).

An export in which a number is an input is taken only where it agrees with the one in which it is a constant
(:mod:`zenith.torch.agreement`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar
from unittest.mock import patch

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from zenith.api.forms import exactly
from zenith.errors import is_library
from zenith.torch.calls import ModuleCall, may_be_dynamic
from zenith.torch.conditions import tensor_inputs

_ITEM = torch.ops.aten._local_scalar_dense.default
T = TypeVar("T")


class NumbersAreFixed(Exception):
    """A program needs the numbers at these paths as constants."""

    def __init__(self, paths: Iterable[str]) -> None:
        super().__init__(*paths)
        self.paths = tuple(paths)


class DynamicNumbers:
    """Which numbers of a module's arguments are inputs, by their paths, as calls come.

    No number is where a forward outside of libraries calls ``type(...)``, which alone distinguishes a symbol from a
    number there, or where the user's own ``dynamic_shapes`` say what varies.
    """

    def __init__(self, module: torch.nn.Module, dynamic_shapes: object) -> None:
        self._none = dynamic_shapes is not None or any(map(_asks_for_types, module.modules()))
        self._first: dict[str, object] = {}
        self._varying: set[str] = set()
        self._fixed: set[str] = set()

    def run(self, call: ModuleCall, compute: Callable[[ModuleCall], T]) -> T:
        """The result of ``compute`` for a call whose Python numbers are inputs where they vary and can be."""
        while dynamic := self._seen(call):
            varying = call.with_dynamic(dynamic)
            if not varying.numbers:
                break
            try:
                return compute(varying)
            except NumbersAreFixed as error:
                self._fixed.update(error.paths)
        return compute(call)

    def _seen(self, call: ModuleCall) -> frozenset[str]:
        """The paths of a call's numbers that are inputs, now that its values are known, too."""
        found = [(path, value) for path, value in call.form.values if may_be_dynamic(value) and not self._none]
        for path, value in found:
            if self._first.setdefault(path, exactly(value)) != exactly(value):
                self._varying.add(path)
        return frozenset(path for path, _ in found if path in self._varying - self._fixed)


def _asks_for_types(module: torch.nn.Module) -> bool:
    code = getattr(type(module).forward, "__code__", None)
    return code is not None and "type" in code.co_names and not is_library(code.co_filename)


@contextmanager
def numbers_fixed(call: ModuleCall) -> Iterator[None]:
    """What fails within this block fails because numbers of the call are inputs, if some are.

    If it fails without them as well, the user gets that error. Of several numbers floats are suspected first, on which
    no export branches.
    """
    try:
        yield
    except Exception as error:
        if not call.numbers or isinstance(error, Warning | MemoryError | NumbersAreFixed):
            raise
        raise NumbersAreFixed(_floats(call) or call.form.dynamic) from error


@contextmanager
def caught_errors_refused(call: ModuleCall) -> Iterator[None]:
    """An export in which the module asks for a float's value fails, also where the module catches torch's error.

    For one thread at a time.
    """
    floats, asked = _floats(call), list[object]()
    own = GuardOnDataDependentSymNode.__init__

    def noted(error: GuardOnDataDependentSymNode, *args: Any) -> None:
        asked.append(error)
        own(error, *args)

    with patch.object(GuardOnDataDependentSymNode, "__init__", noted) if floats else nullcontext():
        yield
    if asked:
        raise NumbersAreFixed(floats)


def _floats(call: ModuleCall) -> list[str]:
    return [call.paths[index] for index, number in call.numbers.items() if isinstance(number, float)]


def read_numbers(program: torch.export.ExportedProgram, numbers: Mapping[int, int | float]) -> None:
    """In an export, make each float the element of its tensor: nothing else turns tensors' values into numbers."""
    inputs = tensor_inputs(program)
    for index, number in numbers.items():
        if isinstance(number, float):
            for user in inputs[index].users:
                if user.target is _ITEM:
                    user.target = torch.sym_float
