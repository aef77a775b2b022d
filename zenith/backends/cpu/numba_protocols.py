"""What Numba gives to the functions that type a call and emit its LLVM, for kernels of CPU and CUDA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from llvmlite import ir
from numba.core import types
from numba.core.typing.context import BaseContext as TypingContext
from numba.core.typing.templates import Signature

__all__ = ["Emit", "Intrinsic", "Signature", "TargetContext", "Typer", "TypingContext", "Values"]

Values = Sequence[ir.Value]


class TargetContext(Protocol):
    """How a target represents Numba's types in LLVM."""

    def get_value_type(self, kind: types.Type, /) -> ir.Type: ...

    def get_data_type(self, kind: types.Type, /) -> ir.Type: ...

    def get_dummy_value(self) -> ir.Value: ...

    def get_abi_sizeof(self, kind: ir.Type, /) -> int: ...

    def get_function(self, function: Callable[..., object], sig: Signature, /) -> Callable[..., ir.Value]: ...

    def cast(self, builder: ir.IRBuilder, value: ir.Value, source: types.Type, target: types.Type, /) -> ir.Value: ...


Typer = Callable[..., types.Type | Signature | None]  # the type of a call's result, from those of its arguments
Emit = Callable[[TargetContext, ir.IRBuilder, Signature, Values], ir.Value]
Intrinsic = tuple[Signature, Emit]  # what the definition of an intrinsic gives
