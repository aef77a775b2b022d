"""What lowering shares for all kinds of groups: buffers, sizes, a trial run that finds the loops, task loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from zenith.backends.kernel import Bind, Branch, Buffer, Kernel, Store, TaskLoop
from zenith.backends.lower.collapse import collapse, sizes, spread
from zenith.backends.lower.elements import ElementBuilder, Index
from zenith.backends.lower.words import WORDS, refuse_words
from zenith.backends.memory_effects import buffers_of
from zenith.ir.dims import Dim, dim, product, row_major, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Interleave, Prefix, Scalar, Tile


@dataclass(frozen=True, slots=True)
class KernelInterface:
    """The outside of a kernel: its buffers by value, and the size symbols that the body mentions."""

    body: Graph
    buffers: tuple[Buffer, ...]
    inputs: dict[tuple[int, int], str]
    outputs: tuple[str, ...]
    symbols: tuple[str, ...]

    @classmethod
    def of(cls, body: Graph, named: Sequence[str] | None = None) -> KernelInterface:
        """The interface of a fused body: its inputs by their names, its outputs as ``out0``, ``out1`` ...

        The outputs of a subgraph of a body are ``named`` as those of the whole.
        """
        names = {(v.node, 0): str(body.node(v.node).params["name"]) for v in body.inputs}
        outputs = tuple(f"out{i}" for i in range(len(body.outputs))) if named is None else tuple(named)
        symbols = body_symbols(body)
        refuse_words(symbols)
        buffers = [Buffer(names[v.node, 0], v.dtype, product(v.shape), "in") for v in body.inputs]
        buffers += [Buffer(n, v.dtype, product(v.shape), "out") for n, v in zip(outputs, body.outputs, strict=True)]
        return cls(body, tuple(buffers), names, outputs, symbols)

    def builder(self) -> ElementBuilder:
        """A fresh element builder on these buffers."""
        taken = WORDS | {b.name for b in self.buffers} | set(self.symbols)
        return ElementBuilder(self.body, dict(self.inputs), taken)

    def doc(self) -> str:
        """The body's operations, as a kernel's one line of documentation."""
        names = dict.fromkeys(n.primitive.name for _, n in self.body.nodes() if n.primitive.name != "input")
        return "; ".join(names) or "copy"

    def kernel(self, tasks: Dim, cost: Dim | int, elements: ElementBuilder) -> Kernel:
        """The finished kernel, without its final name."""
        return Kernel("kernel", self.doc(), self.buffers, self.symbols, tasks, dim(cost), elements.close())


def with_used_buffers(kernel: Kernel) -> Kernel:
    """A kernel without the buffers that it does not access."""
    used = buffers_of(kernel.body)
    return replace(kernel, buffers=tuple(b for b in kernel.buffers if b.name in used))


def body_symbols(body: Graph) -> tuple[str, ...]:
    """Every size symbol in the types and parameters of a graph, sorted."""
    return tuple(sorted(set().union(*(node.symbols for _, node in body.nodes()))))


def scalar_cost(body: Graph) -> int:
    """About how many simple operations one element of the body takes, its memory accesses included."""
    lowerings = [n.primitive.lowering for _, n in body.nodes()]
    return len(body.inputs) + len(body.outputs) + sum(low.cost for low in lowerings if isinstance(low, Scalar | Prefix))


def find_loops(
    face: KernelInterface,
    space: Sequence[Dim],
    visit: Callable[[ElementBuilder, Index], None],
    addresses: Callable[[Index], Sequence[Dim]],
) -> list[list[int]]:
    """The axes that can be one loop, found by a trial run of ``visit`` with one variable an axis.

    ``addresses(index)`` are the positions that the kernel writes.
    """
    trial = face.builder()
    names = [trial.fresh(f"axis{k}") for k in range(len(space))]
    index = tuple(symbol(n) for n in names)
    trial.open(*names)
    visit(trial, index)
    return collapse(space, names, [*trial.uses, *addresses(index)])


def bind(e: ElementBuilder, stem: str, at: Dim) -> Dim:
    """Name an index expression in the innermost loop, unless it is a number or a name."""
    if at.static is not None or str(at).isidentifier():
        return at
    name = e.fresh(stem)
    e.level_of[name] = len(e.levels) - 1
    e.append(Bind(name, at))
    return symbol(name)


def decode_into(e: ElementBuilder, position: Dim, extents: Sequence[Dim], stem: str = "o") -> list[Dim]:
    """Variables of nested loops from the position in their flattened space, named in the innermost loop."""
    variables: list[Dim] = []
    if any(extent == 0 for extent in extents):
        return [dim(0)] * len(extents)
    rest = position
    for extent in reversed(extents[1:]):
        variables.append(bind(e, stem, rest % extent))
        rest = bind(e, "rest", rest // extent)
    if extents:
        variables.append(rest)
    return variables[::-1]


def element_loops(
    e: ElementBuilder, space: Sequence[Dim], groups: Sequence[Sequence[int]], visit: Callable[[Index], None]
) -> None:
    """Run ``visit`` for the elements of a space, a task each, lanes along the innermost collapsed axis."""
    extents = sizes(space, groups)
    i = e.fresh("i")
    if len(groups) <= 1:
        e.open(i)
        visit(spread(groups, len(space), [symbol(i)] * len(groups)))
        e.append(TaskLoop(i, product(space), None, (), e.close(), True))
        return
    row = e.fresh("row")
    e.open(row)
    outer = decode_into(e, symbol(row), extents[:-1])
    e.open(i)
    visit(spread(groups, len(space), [*outer, symbol(i)]))
    body, before = e.close(), e.close()
    e.append(TaskLoop(i, extents[-1], row, before, body, True))


def write_case(e: ElementBuilder, at: Dim, cases: Sequence[Callable[[], None]]) -> None:
    """Write the case of a number; where the number is not known, all of them and a branch."""
    if at.static is not None:
        cases[at.static]()
        return
    case, written = bind(e, "case", at), []
    for write in cases:
        e.open()
        write()
        written.append(e.close())
    e.append(Branch(case, 0, tuple(written)))


def side_by_side(body: Graph, value: Value) -> tuple[Value, ...]:
    """The values stored in the elements of an output: the operands that it interleaves, else itself."""
    node = body.node(value.node)
    return body.args(value.node) if isinstance(node.primitive.lowering, Interleave) else (value,)


def inside(body: Graph, value: Value) -> Value | None:
    """The value inside the border of a padded output; None for other outputs, and where padding only copies."""
    node = body.node(value.node)
    if node.primitive.name != "pad":
        return None
    source = body.args(value.node)[0]
    made, args = body.node(source.node), body.args(source.node)
    is_widened = made.primitive.name == "cast" and args[0].dtype.is_narrow
    is_computed = isinstance(made.primitive.lowering, Scalar) and bool(source.shape) and not is_widened
    return source if is_computed or tile_result_of(body, source) is not None else None


def space_of(body: Graph, value: Value) -> tuple[Dim, ...]:
    """The shape over which an output is computed."""
    return side_by_side(body, inside(body, value) or value)[0].shape


def position_of(body: Graph, value: Value, index: Index) -> Dim:
    """The position in an output of the element at an index of the space over which it is computed."""
    if inside(body, value) is not None:
        index = tuple(i + low for i, low in zip(index, body.node(value.node).params["low"], strict=True))
    return row_major(value.shape, index)


def computed(e: ElementBuilder, face: KernelInterface, name: str, index: Index) -> list[Store]:
    """Compute the element of an output at an index; returns the statements that store it."""
    value = face.body.outputs[face.outputs.index(name)]
    operands = side_by_side(face.body, value)
    if operands == (value,):
        return [Store(name, position_of(face.body, value, index), e.element(inside(face.body, value) or value, index))]
    return [Store(name, row_major(value.shape, (*index, dim(i))), e.element(p, index)) for i, p in enumerate(operands)]


def store_outputs(e: ElementBuilder, face: KernelInterface, index: Index) -> None:
    """Compute and write every output of the body at an index."""
    for name in face.outputs:
        for store in computed(e, face, name, index):
            e.append(store)


def store_results(e: ElementBuilder, face: KernelInterface, index: Index, result: int = 0) -> None:
    """The same at an index of a tile kernel's ``result``; an output may be its transpose, or have a border around it.

    An output that is no descendant of the tile, such as the transpose of another operand, is written at the index
    itself, or inside its own border.
    """
    for name, value, output_index in stored(face, index, result):
        source, at = value, output_index
        while _is_bordered(face.body, source):
            at = tuple(i - low for i, low in zip(at, face.body.node(source.node).params["low"], strict=True))
            source = face.body.args(source.node)[0]
        e.append(Store(name, row_major(value.shape, output_index), e.element(source, at)))


def stored(face: KernelInterface, index: Index, result: int = 0) -> Iterator[tuple[str, Value, Index]]:
    """The outputs that are written at an index of a tile kernel's ``result``, by name, and the index in each."""
    for name, value in zip(face.outputs, face.body.outputs, strict=True):
        found = tile_result_of(face.body, value)
        if result == (found or 0):
            has_row_sums = found is None and not _is_bordered(face.body, value)
            yield name, value, index if has_row_sums else _transposed(face.body, value, index)


def tile_result(body: Graph) -> Value:
    """The first result of the tile primitive of a body."""
    number = next(n for n, r in body.nodes() if isinstance(r.primitive.lowering, Tile))
    return Value(number, 0, body.node(number).types[0])


def tile_result_of(body: Graph, value: Value) -> int | None:
    """The number of the tile kernel's result that is an ancestor of a value; None without one."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(body.node(current.node).primitive.lowering, Tile):
            return current.output
        pending += body.args(current.node)
    return None


def _is_bordered(body: Graph, value: Value) -> bool:
    """Whether a value has a border around a value that is computed at the indices of a tile kernel's result."""
    if tile_result_of(body, value) is not None:
        return body.node(value.node).primitive.name == "pad"
    return inside(body, value) is not None and value.shape != tile_result(body).shape


def _transposed(body: Graph, value: Value, index: Index) -> Index:
    """The index in a value, maybe transposed or with a border, of the element at an index of the tile's result."""
    node = body.node(value.node)
    if node.primitive.name not in ("transpose", "pad"):
        return index
    source = _transposed(body, body.args(value.node)[0], index)
    if node.primitive.name == "pad":
        return tuple(i + low for i, low in zip(source, node.params["low"], strict=True))
    return tuple(source[a] for a in node.params["axes"])
