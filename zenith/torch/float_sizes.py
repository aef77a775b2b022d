"""Floats computed from sizes, ``int(n * 0.75)`` and ``x / math.sqrt(n)``: symbolic in an export.

Python's functions ask torch.export for a number, which fixes the size. Those of ``math`` that an export has for symbols
are replaced by these while it records. ``int`` cannot be replaced: where it fixed a size, TorchDynamo, which the strict
mode of torch.export runs, records the module again, and knows ``int``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch.utils._sympy import functions

from zenith.torch.conditions import tensor_inputs

_FLOATS = (functions.ToFloat, functions.TruncToInt, functions.IntTrueDiv, functions.FloatTrueDiv, functions.FloatPow)
_NAMES = ("sqrt",)  # of torch's functions of symbols, those that an export may have


def recorded_with_floats(module: torch.nn.Module, tensors: Sequence[torch.Tensor],
                         shapes: Any) -> torch.export.ExportedProgram:  # fmt: skip
    """The export of a module of tensors, in which floats of sizes fix none, where torch has symbols for them."""
    with _symbolic_functions() as used:
        try:
            program = torch.export.export(module, tuple(tensors), dynamic_shapes=shapes, strict=False)
        except Exception:
            if not used:
                raise
            program = None
    if program is None:  # some operator needs these floats as numbers
        return torch.export.export(module, tuple(tensors), dynamic_shapes=shapes, strict=False)
    return _recorded_strictly(module, tensors, shapes, program) if _fixes_sizes(program) else program


def _fixes_sizes(program: torch.export.ExportedProgram) -> bool:
    """Whether an export is valid for a single value of an integer that a float of a size is rounded to."""
    example = next((n.meta["val"] for n in tensor_inputs(program)), None)
    environment = getattr(getattr(example, "fake_mode", None), "shape_env", None)
    guards = [] if environment is None else [guard.expr for guard in environment.guards]
    return any(isinstance(g, sympy.Eq) and g.has(*_FLOATS) and any(a.is_Integer for a in g.args) for g in guards)


def _recorded_strictly(
    module: torch.nn.Module, tensors: Sequence[torch.Tensor], shapes: Any, nonstrict: torch.export.ExportedProgram
) -> torch.export.ExportedProgram:
    """TorchDynamo's export; ``nonstrict``, the other mode's, where it refuses or records other operators."""
    try:
        program = torch.export.export(module, tuple(tensors), dynamic_shapes=shapes, strict=True)
    except Exception:  # whatever TorchDynamo does not record, the other mode has recorded
        return nonstrict
    return nonstrict if _higher(program) - _higher(nonstrict) or _fixes_sizes(program) else program


def _higher(program: torch.export.ExportedProgram) -> set[object]:
    return {n.target for n in program.graph.nodes if isinstance(n.target, torch._ops.HigherOrderOperator)}


@contextmanager
def _symbolic_functions() -> Iterator[list[str]]:
    """Functions of ``math`` take symbols; the list has the names of those that did."""
    used: list[str] = []
    own = {name: getattr(math, name) for name in _NAMES}
    for name, function in own.items():
        setattr(math, name, _symbolic(name, function, used))
    try:
        yield used
    finally:
        for name, function in own.items():
            setattr(math, name, function)


def _symbolic(name: str, function: Callable[[Any], float], used: list[str]) -> Callable[[object], object]:
    of_symbols = getattr(torch, f"_sym_{name}")

    def computed(number: object, /) -> Any:
        if not isinstance(number, torch.SymInt | torch.SymFloat):
            return function(number)
        used.append(name)
        return of_symbols(number)

    return computed
