"""Printing statements that are the call of one function: most of those on tiles, and native functions from outside.

The function's name and arguments are the same on arrays, in vectors and in NumPy; a GPU's printer has most of them
written out.
"""

from __future__ import annotations

from collections.abc import Callable

from zenith.backends.expressions import literal
from zenith.backends.kernel import Call, CallInnerLoop, CallNative
from zenith.backends.tiles import (
    Folded,
    Operand,
    PackPanel,
    ProductTile,
    RegisterProduct,
    ScaledTile,
    SharedProduct,
    SoftmaxTile,
    StageTile,
)
from zenith.ir.dims import Dim

Size = Callable[[Dim], str]  # prints an index expression


def call(statement: Call, size: Size) -> str:
    """A statement that is a call of one function."""
    match statement:
        case ProductTile():
            return _tile(statement, size)
        case ScaledTile():
            return _scaled(statement, size)
        case PackPanel():
            return _pack(statement, size)
        case SharedProduct():
            return _shared(statement, size)
        case SoftmaxTile():
            return _softmax(statement, size)
        case StageTile():
            return _stage(statement, size)
        case RegisterProduct():
            return _register_product(statement, size)
        case CallNative():
            return _native(statement, size)
        case CallInnerLoop():
            return _inner_loop(statement, size)


def _tile(t: ProductTile, size: Size) -> str:
    """A call of the register tile."""
    c, a, b = t.target, t.a, t.b
    words = [str(t.rows), str(t.vectors), str(t.lanes), str(t.lines)]
    words += [c.buffer, size(c.at), size(c.strides[0])]
    words += [a.buffer, size(a.at), *([] if t.gathered is None else [t.gathered.rows])]
    words += map(size, a.strides)
    if t.gathered is not None:
        words += [t.gathered.offsets, size(t.gathered.first), size(t.gathered.segments)]
    words += [b.buffer, size(b.at), size(b.strides[0]), size(t.terms)]
    words += [size(t.ahead), size(t.onto)]
    return f"{'product' if t.gathered is None else 'gathered'}_tile({', '.join(words)})"


def _scaled(t: ScaledTile, size: Size) -> str:
    """A call of the register tile of a block-scaled product."""
    words = [*map(str, (t.rows, t.vectors, t.lanes, t.bits, t.group))]
    for operand in (t.target, t.a):
        words += [operand.buffer, size(operand.at), size(operand.strides[0])]
    words += [t.a_scales.buffer, *map(size, (t.a_scales.at, *t.a_scales.strides))]
    for operand in (t.b, t.b_scales):
        words += [operand.buffer, size(operand.at)]
    return f"scaled_tile({', '.join([*words, size(t.groups), size(t.onto)])})"


def _pack(p: PackPanel, size: Size) -> str:
    """A call of the copy into a panel."""
    words = [str(p.vectors), str(p.lanes), p.target, size(p.at)]
    words += [p.source.buffer, *map(size, (p.source.at, *p.source.strides, p.terms, p.columns))]
    return f"pack_panel({', '.join(words)})"


def _shared(p: SharedProduct, size: Size) -> str:
    """A call of the shared product."""
    words = [str(p.rows), str(p.columns), size(p.height), size(p.width)]
    for operand in (p.target, p.a, p.b):
        words += [operand.buffer, size(operand.at), *_axes(operand, size)]
    rounded = p.schedule.instruction.type if p.schedule and p.schedule.instruction.rounds else ""
    name = f"{rounded}_product" if rounded else "shared_product"
    return f"{name}({', '.join([*words, size(p.terms), size(p.onto)])})"


def _axes(operand: Operand | Folded, size: Size) -> list[str]:
    """The two strides of an operand; for a folded one, a tuple of digits in place of each."""
    if isinstance(operand, Operand):
        return list(map(size, operand.strides))
    digits = [
        [f"({size(extent)}, {size(step)})" for extent, step in zip(a.extents, a.steps, strict=True)]
        for a in operand.axes
    ]
    return [f"({', '.join([size(a.first), *d])})" for a, d in zip(operand.axes, digits, strict=True)]


def _softmax(t: SoftmaxTile, size: Size) -> str:
    """A call of the step of an online softmax."""
    words = [str(t.lanes), literal(t.scale.value, t.scale.dtype), t.scores.buffer, size(t.scores.at)]
    words += [size(t.scores.strides[0]), size(t.keys), *t.state, size(t.offset)]
    return f"softmax_tile({', '.join(words)})"


def _stage(t: StageTile, size: Size) -> str:
    """A call of the copy to a scratch tile."""
    sizes = map(size, (t.source.at, *t.source.strides, t.height, t.width, t.at))
    return f"stage_tile({t.rows}, {t.columns}, {t.target}, {t.source.buffer}, {', '.join(sizes)})"


def _register_product(p: RegisterProduct, size: Size) -> str:
    """A call of the product of staged tiles or register matrices."""
    shape = f"{p.rows}, {p.columns}, {p.terms}, {int(p.transposed)}, {int(p.onto)}"
    return f"register_product({shape}, {str(p.instruction.element)!r}, {p.target}, {p.a}, {p.b}, {size(p.at)})"


def _native(call: CallNative, size: Size) -> str:
    """A call of native code; the literal says how many elements there are."""
    words = [word for buffer, at in call.elements for word in (buffer, size(at))]
    words += map(size, call.sizes)
    return f"call_native({len(call.elements)}, {call.function}[0], {', '.join(words)})"


def _inner_loop(call: CallInnerLoop, size: Size) -> str:
    """A call of a loop of NumPy's; the literals say how many arguments and axes there are."""
    words = [word for buffer, at in call.elements for word in (buffer, size(at))]
    words += map(size, (*call.dimensions, *call.strides))
    return f"inner_loop({call.loop!r}, {len(call.elements)}, {len(call.dimensions) - 1}, {', '.join(words)})"
