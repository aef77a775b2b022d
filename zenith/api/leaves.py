"""The leaves of a call: what a compiled program depends on, and how each leaf becomes an input of the graph.

A leaf is an array of a library that :mod:`zenith.arrays` knows, a NumPy scalar, or a Python number. Python numbers are
*weak* inputs: the program is compiled once for every value, and together with arrays they take the arrays' element
type. NumPy scalars and NumPy's 0-d arrays are the same to a program: one serves both, so that a state which begins as
``np.zeros(())`` and comes back as a number needs one compilation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zenith.arrays import NUMPY, Adapter, adapter_for, adapter_named
from zenith.arrays.labelled import refusal
from zenith.backends.codec import record
from zenith.errors import DTypeError, TraceError, ValueTypeError
from zenith.ir.dims import Dim, dim, symbol
from zenith.ir.types import DType, NDArray, bool_, complex128, dtype_of, float64, int64
from zenith.trace import InputSpec
from zenith.trace.dispatch import Unsized
from zenith.tree import how_to_register, identifier, unique

NUMBERS: dict[type, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}

# How a leaf of each type is described in the key of a compilation, by exact type: the fast path of every call.
KEYS: dict[type, Callable[[Any], Hashable]] = {np.ndarray: NUMPY.signature, **dict.fromkeys(NUMBERS, type)}


@record
@dataclass(frozen=True, slots=True)
class LeafKind:
    """The kind of a leaf that a program takes.

    ``name`` is the library of an array, ``"scalar"`` for NumPy's scalars, ``"number"`` for a Python number; ``device``
    is the number of the GPU of an array, None for the CPU.
    """

    name: str
    dtype: DType
    rank: int
    device: int | None = None

    @classmethod
    def of(cls, leaf: Any) -> LeafKind:
        """The kind of a checked leaf."""
        if type(leaf) in NUMBERS:
            return cls("number", NUMBERS[type(leaf)], 0)
        adapter = adapter_of(leaf)
        dtype = dtype_of(leaf.dtype) if isinstance(leaf, np.generic) else adapter.dtype(leaf)
        assert dtype is not None, "the leaf was checked"
        return cls("scalar" if isinstance(leaf, np.generic) else adapter.library, dtype, leaf.ndim, adapter.device)

    @property
    def is_number(self) -> bool:
        """Whether such a leaf must become a 0-d array before a kernel can read it."""
        return self.name in ("number", "scalar")

    @property
    def read(self) -> Callable[[object], NDArray] | None:
        """The function from such a leaf to the array that a kernel reads; None where the leaf is that array."""
        if self.name == "number":
            return as_array if self.dtype == int64 else np.array  # the quicker one; only integers may not fit
        return np.asarray if not self.rank and self.adapter is NUMPY else None

    @property
    def adapter(self) -> Adapter:
        """The adapter that reads such a leaf; imports torch for a tensor."""
        return NUMPY if self.is_number else adapter_named(self.name, self.device)

    @property
    def key(self) -> Hashable:
        """The result of :func:`leaf_key` for such a leaf."""
        if self.name == "number":
            return next(type for type, dtype in NUMBERS.items() if dtype == self.dtype)
        return self.adapter.signature_of(self.dtype, self.rank)


def leaf_key(leaf: object, name: str) -> Hashable:
    """What a program compiled for ``leaf`` depends on; TraceError naming the leaf when it is no array."""
    describe = KEYS.get(type(leaf))
    if describe is None:
        describe = KEYS[type(leaf)] = _describe(leaf, name)
    return describe(leaf)


def _describe(leaf: object, name: str) -> Callable[[object], Hashable]:
    if isinstance(leaf, np.generic):
        key = NUMPY.signature(leaf)  # of all scalars of the type
        return lambda _: key
    adapter = adapter_for(leaf)
    if adapter is None:
        raise not_an_array(leaf, name)
    adapter.check(leaf, name)
    return adapter.signature


def not_an_array(leaf: object, name: str) -> TraceError:
    """The error for a leaf that is neither an array nor a number."""
    kind = type(leaf).__name__
    if isinstance(leaf, Unsized):
        leaf.refuse()
    found = refusal(leaf, name)
    if found is not None:
        return found
    argument = name.partition("[")[0].partition(".")[0]
    static = f'if the program shall be compiled for each value, declare jit(static_argnames="{argument}")'
    return ValueTypeError(
        f"{name} is a {kind}, neither an array nor a number",
        fix="; ".join(filter(None, (how_to_register(leaf), static))),
    )


def check_leaf(leaf: object, name: str) -> None:
    """Raise the fitting error when Zenith cannot compute with a leaf."""
    if type(leaf) in NUMBERS:
        as_array(leaf, name)
    elif isinstance(leaf, np.generic):
        NUMPY.check(np.asarray(leaf), name)
    else:
        adapter = adapter_for(leaf)
        if adapter is None:
            raise not_an_array(leaf, name)
        adapter.check(leaf, name)


def as_array(number: object, name: str = "an argument") -> NDArray:
    """A Python number or NumPy scalar as a 0-d array."""
    dtype = NUMBERS.get(type(number))
    try:
        return np.array(number, None if dtype is None else dtype.numpy)
    except OverflowError:
        raise DTypeError(f"{name} is {number}, which does not fit int64", fix="pass a float") from None


def is_number(leaf: object) -> bool:
    """Whether a leaf must become a 0-d array before a kernel can read it."""
    return type(leaf) in NUMBERS or isinstance(leaf, np.generic)


def adapter_of(leaf: object) -> Adapter:
    """The adapter of a checked leaf."""
    return adapter_for(leaf) or NUMPY


def input_names(paths: Sequence[str]) -> list[str]:
    """Identifiers for graph inputs, made from the paths of the leaves; ``v`` and digits name the graph's own values."""
    names = (identifier(path) for path in paths)
    return unique(f"{n}_" if n[0] == "v" and n[1:].replace("_", "").isdigit() else n for n in names)


def input_spec(name: str, leaf: Any, sizes: Sequence[Dim]) -> InputSpec:
    """The graph input for a checked leaf, with these sizes."""
    number = as_array(leaf, name) if is_number(leaf) else None
    adapter = NUMPY if number is not None else adapter_of(leaf)
    array = leaf if number is None else number
    dtype = adapter.dtype(array)
    assert dtype is not None, f"{name} was not checked"
    return InputSpec(name, dtype, tuple(sizes), tuple(adapter.shape(array)), type(leaf) in NUMBERS)


def symbolic_sizes(names: Sequence[str], ranks: Sequence[int]) -> list[tuple[Dim, ...]]:
    """A symbol for every axis: ``x0`` and ``x1`` for a matrix called ``x``; ``p_0`` where kernels use ``p0``."""
    from zenith.backends.lower.words import is_word  # a call of a compiled program needs no backend

    wanted = [f"{name}{axis}" for name, rank in zip(names, ranks, strict=True) for axis in range(rank)]
    wanted = [re.sub(r"(\d+)$", r"_\1", name) if is_word(name) else name for name in wanted]
    made = iter(unique(wanted, taken=names))
    return [tuple(symbol(next(made)) for _ in range(rank)) for rank in ranks]


def static_sizes(leaf: Any) -> tuple[Dim, ...]:
    """The sizes of a leaf as constants."""
    return tuple(dim(n) for n in np.shape(leaf)) if is_number(leaf) else tuple(dim(n) for n in leaf.shape)


def rank_of(leaf: Any) -> int:
    """The number of axes of a leaf."""
    return 0 if is_number(leaf) else leaf.ndim


def dtype_text(leaf: object) -> str:
    """The type of a leaf as messages show it, sizes left open: ``numpy f32[_, _]``, or the number's Python type."""
    if type(leaf) in NUMBERS:
        return f"a Python {type(leaf).__name__}"
    if isinstance(leaf, np.generic):
        return f"a NumPy {leaf.dtype}"
    adapter = adapter_of(leaf)
    axes = f"[{', '.join('_' * rank_of(leaf))}]" if rank_of(leaf) else ""
    device = "" if adapter.device is None else f" on cuda:{adapter.device}"
    return f"{adapter.library} {adapter.dtype(leaf)}{axes}{device}"
