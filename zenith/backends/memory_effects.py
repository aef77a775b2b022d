"""Memory effects of statements: the buffers that they read and write, and the index expressions in them."""

from __future__ import annotations

from zenith.backends.expressions import Apply, Expr, Load, Name
from zenith.backends.kernel import (
    Assign,
    AtomicAdd,
    Bind,
    CallInnerLoop,
    CallNative,
    Check,
    Fold,
    Kernel,
    LastOf,
    Let,
    Running,
    Search,
    Statement,
    Store,
    TaskLoop,
    UserCode,
    While,
    walk,
)
from zenith.backends.tiles import (
    FoldRegisters,
    PackPanel,
    ProductTile,
    RegisterProduct,
    ScaledTile,
    SharedProduct,
    SoftmaxTile,
    StageTile,
)
from zenith.ir.dims import Dim


def buffers_of(statements: tuple[Statement, ...]) -> set[str]:
    """The names of all buffers that statements read or write."""
    read, written = touched(statements)
    return read | written


def touched(statements: tuple[Statement, ...]) -> tuple[set[str], set[str]]:
    """The buffers that statements read, and those that they write; a user's source may do both with all of its own."""
    read, written = set[str](), set[str]()
    for s in walk(statements):
        read |= _read_by(s)
        written |= _written_by(s)
    return read, written


def is_copy(kernel: Kernel) -> bool:
    """Whether a kernel only copies each element of its one operand to the same position of its result."""
    found = [s for s in walk(kernel.body) if not isinstance(s, TaskLoop | Bind)]
    if [b.role for b in kernel.buffers] != ["in", "out"] or len(found) != 2:
        return False
    match found:
        case [Let(name, Load(_, source)), Store(_, target, Name(copied))]:
            return name == copied and source == target
    return False


def _read_by(statement: Statement) -> set[str]:
    match statement:
        case Let(_, value) | Assign(_, value) | Check(_, value) | Store(_, _, value) | While(_, value):
            return _loads(value)
        case AtomicAdd(buffer, _, value):
            return _loads(value) | {buffer}
        case Fold(accumulators=accumulators):
            return {b for a in accumulators for b in _loads(a.value)}
        case Running() | Search():
            return {b for value in statement.values for b in _loads(value)}
        case ProductTile() | ScaledTile() | SharedProduct():
            return _read_by_tile(statement)
        case RegisterProduct():
            return {statement.a, statement.b, *([statement.target] if statement.onto else [])}
        case FoldRegisters(target, source):
            return {target, source}
        case PackPanel(source=source) | StageTile(source=source):
            return {source.buffer}
        case CallNative(function):
            return {function, *_written_by(statement)}
        case _:
            return _written_by(statement)


def _read_by_tile(tile: ProductTile | ScaledTile | SharedProduct) -> set[str]:
    """The operands, what else a tile reads, and the target where it has sums already."""
    found = {tile.a.buffer, tile.b.buffer, *([] if tile.onto == 0 else [tile.target.buffer])}
    if isinstance(tile, ScaledTile):
        found |= {tile.a_scales.buffer, tile.b_scales.buffer}
    if isinstance(tile, ProductTile) and tile.gathered:
        found |= {tile.gathered.offsets, tile.gathered.rows}
    return found


def _written_by(statement: Statement) -> set[str]:
    match statement:
        case Store(buffer) | AtomicAdd(buffer):
            return {buffer}
        case ProductTile(target=target) | ScaledTile(target=target) | SharedProduct(target=target):
            return {target.buffer}
        case (
            PackPanel(target=name) | StageTile(target=name) | RegisterProduct(target=name) | FoldRegisters(target=name)
        ):
            return {name}
        case SoftmaxTile(scores=scores, state=state):
            return {scores.buffer, *state}
        case LastOf(counters):
            return {counters}
        case UserCode(_, buffers):
            return {*buffers}
        case CallNative(elements=elements) | CallInnerLoop(elements=elements):
            return {buffer for buffer, _ in elements}
        case _:
            return set()


def _loads(expr: Expr) -> set[str]:
    if isinstance(expr, Load):
        return {expr.buffer}
    return {b for a in expr.args for b in _loads(a)} if isinstance(expr, Apply) else set()


def index_expressions(statements: tuple[Statement, ...]) -> set[Dim]:
    """Every index expression in statements: sizes, limits of loops, positions."""
    found: set[Dim] = set()
    pending: list[object] = list(statements)
    while pending:
        item = pending.pop()
        if isinstance(item, Dim):
            found.add(item)
        elif isinstance(item, tuple):
            pending += item
        else:
            pending += [getattr(item, name) for name in getattr(item, "__dataclass_fields__", ())]
    return found


def symbols_of(statements: tuple[Statement, ...]) -> set[str]:
    """Every name in the index expressions of statements."""
    return {name for at in index_expressions(statements) for name in at.symbols()}
