"""What Numba knows while it compiles kernels: numbers, ranges, tuples, and the functions that Zenith taught it.

Numba's own contexts hold arrays, strings, lists, dictionaries, random numbers and linear algebra as well, which takes a
process 0.4 s to load, and every ``a + b`` is first tried as an operation on arrays. They also resolve a
name anew at each of its uses. Kernels use few names, so that here each is resolved once a process.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache

from llvmlite import ir
from numba.core import fastmathpass, types
from numba.core.cpu import CPUContext
from numba.core.typing.context import BaseContext
from numba.core.typing.templates import RegistryLoader, Signature, _OverloadAttributeTemplate, builtin_registry

from zenith.backends.cpu.numba_protocols import Values
from zenith.backends.cpu.ranges import RANGES


class _WithoutMethods(RegistryLoader):
    """A registry without attributes and methods written in Python: each would load Numba's own contexts."""

    def new_registrations(self, name: str) -> Iterator[object]:
        """What was registered since the last time."""
        for item in super().new_registrations(name):
            if not (isinstance(item, type) and issubclass(item, _OverloadAttributeTemplate)):
                yield item


class KernelTyping(BaseContext):
    """Type rules of operations."""

    def init(self) -> None:
        self._signatures: dict[Hashable, Signature] = {}
        self._registries[builtin_registry] = _WithoutMethods(builtin_registry)

    def load_additional_registries(self) -> None:
        """What is meant here alone; all else registers itself with Numba's builtins when it is imported."""
        self.install_registry(RANGES)

    def resolve_function_type(
        self, func: Hashable, args: tuple[types.Type, ...], kws: Mapping[str, types.Type]
    ) -> Signature | None:
        """The signature of a call; a failure is not cached, as it ends a compilation."""
        if kws:
            return super().resolve_function_type(func, args, kws)
        known = self._signatures.get((func, args))
        if known is None:
            known = super().resolve_function_type(func, args, kws)
            self._signatures[func, args] = known
        return known

    def resolve_setitem(self, target: types.Type, index: types.Type, value: types.Type) -> Signature:
        """The signature of ``target[index] = value``."""
        key = ("setitem", target, index, value)
        if key not in self._signatures:
            self._signatures[key] = super().resolve_setitem(target, index, value)
        return self._signatures[key]


class KernelTarget(CPUContext):
    """How operations become LLVM instructions."""

    def init(self) -> None:
        super().init()
        self._found: dict[Hashable, Callable[..., ir.Value]] = {}

    def load_additional_registries(self) -> None:
        """Numbers and ranges register themselves when they are imported."""
        from numba.cpython import builtins, numbers, rangeobj, tupleobj  # noqa: F401

    def post_lowering(self, mod: ir.Module, library: object) -> None:
        """Nothing but the flags of floats: kernels need no runtime library of Numba's."""
        if self.fastmath:
            fastmathpass.rewrite_module(mod, self.fastmath)

    def get_function(self, fn: Hashable, sig: Signature, _firstcall: bool = True) -> _Emitter:
        """What emits a function of a signature."""
        key = (fn, sig)
        if key not in self._found:
            self._found[key] = super().get_function(fn, sig, _firstcall)._imp
        return _Emitter(self._found[key], self, sig.as_function())

    def pair_first(self, builder: ir.IRBuilder, val: ir.Value, ty: types.Type) -> ir.Value:
        """The number of a loop's iteration."""
        return builder.extract_value(val, 0)

    def pair_second(self, builder: ir.IRBuilder, val: ir.Value, ty: types.Type) -> ir.Value:
        """Whether a loop goes on."""
        return builder.extract_value(val, 1)


class _Emitter:
    """A function of ``(context, builder, signature, args)`` for the context of one compilation."""

    def __init__(self, emit: Callable[..., ir.Value], context: KernelTarget, signature: Signature) -> None:
        self._emit, self._context, self._signature = emit, context, signature

    def __call__(self, builder: ir.IRBuilder, args: Values, loc: object = None) -> ir.Value:
        return self._emit(self._context, builder, self._signature, args, loc=loc)


@cache
def contexts() -> tuple[KernelTyping, KernelTarget]:
    """The contexts of this process."""
    typing = KernelTyping()
    return typing, KernelTarget(typing)
