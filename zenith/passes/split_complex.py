"""Complex numbers become pairs of real ones: kernels know no complex arithmetic.

After this pass a complex array is only a layout of memory: inputs from outside (arguments, constants, results of loops
and of calls) are read as ``as_parts``, a real array with one more axis of size 2, and outputs are made by
``of_parts(interleave(re, im))``. Both are views, and cost nothing. Between them are real values:

* arithmetic is written by its record's :class:`~zenith.ir.lowering.ComplexRule`, and so is what overwrites elements;
* movements move real and imaginary parts alike; a reshape of an array in memory stays a reshape of it;
* the real or imaginary part of a pair is taken from the pair, so that no pair is interleaved that nobody reads.

Loops, branches and calls keep complex operands and results, and the pass runs in their bodies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zenith.ir.graph import Graph, Node, Value
from zenith.ir.lowering import Data, HostCall, NativeCall, Region, View
from zenith.ir.ops.common import results_of
from zenith.ir.types import ArrayType, Type
from zenith.passes.expand import expansion
from zenith.passes.rewrite import Rewriter, rebuild

WHOLE = Data | HostCall | NativeCall | Region  # they take and give complex arrays as these are stored


def split_complex(graph: Graph) -> Graph:
    """The graph in which complex values are pairs of real ones, except for inputs from outside and outputs."""
    if not any(_is_complex(t) for node in graph.walk() for t in node.types):
        return graph
    return rebuild(graph, _visit, revisit=True)


def _is_complex(type: Type) -> bool:
    return isinstance(type, ArrayType) and type.dtype.is_complex


def _visit(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    name = node.primitive.name
    undone = _INVERSES[name](b, node, args) if name in _INVERSES else None
    if undone is not None or name in ("as_parts", "of_parts"):
        return None if undone is None else [undone]
    written = expansion(b, node, args)
    if written is not None or not any(map(_is_complex, [a.type for a in args] + [*node.types])):
        return written
    if name == "literal":
        real, imag = (b.literal(value=number, dtype=node.params["dtype"].real)
                      for number in (node.params["value"].real, node.params["value"].imag))  # fmt: skip
        return [b.complex(real, imag)]
    return _split(b, node, args)


def _split(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Sequence[Value] | None:
    how = node.primitive.lowering
    if isinstance(how, WHOLE) or (isinstance(how, View) and _written_pair(b, args[0]) is None):
        return None
    rule = getattr(how, "complex_rule", None)
    if rule is not None:
        return results_of(rule.write(b, *args, **node.params))
    emit = getattr(b, node.primitive.name)
    pair = [emit(*(take(a) if _is_complex(a.type) else a for a in args), **node.params) for take in (b.real, b.imag)]
    return [b.complex(*pair)]


# --- as_parts and of_parts, part and interleave are inverses ------------------------------------------------------


def _written_pair(b: Rewriter, value: Value) -> tuple[Value, ...] | None:
    """The real and imaginary part that make a complex value; None for one that is in memory."""
    for name in ("of_parts", "interleave"):
        if b.definition(value).primitive.name != name:
            return None
        operands = b.operands(value)
        value = operands[0]
    return operands


def _as_parts(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Value | None:
    return b.operands(args[0])[0] if b.definition(args[0]).primitive.name == "of_parts" else None


def _of_parts(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Value | None:
    return b.operands(args[0])[0] if b.definition(args[0]).primitive.name == "as_parts" else None


def _part(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Value | None:
    is_pair = b.definition(args[0]).primitive.name == "interleave"
    return b.operands(args[0])[node.params["which"]] if is_pair else None


def _interleave(b: Rewriter, node: Node, args: tuple[Value, ...]) -> Value | None:
    """The real and the imaginary part of a value in memory, in this order, are that value."""
    made = [b.definition(a) for a in args]
    if len(made) != 2 or any(m.primitive.name != "part" or m.params["which"] != i for i, m in enumerate(made)):
        return None
    sources = [b.operands(a)[0] for a in args]
    if any(b.definition(s).primitive.name != "as_parts" for s in sources):
        return None
    return sources[0] if len({b.operands(s)[0] for s in sources}) == 1 else None


_INVERSES: dict[str, Callable[[Rewriter, Node, tuple[Value, ...]], Value | None]] = {
    "as_parts": _as_parts, "of_parts": _of_parts, "part": _part, "interleave": _interleave,
}  # fmt: skip
