"""Forms: the variants in which one kernel is printed for a GPU, and when each may run.

A *thread* computes a task, or a *team* of threads where a task joins iterations, shares memory or is a tile. In the
*wide* form neighbouring elements are read and written 16 bytes at a time (vectorized accesses). It needs aligned
addresses and sizes that are multiples of the width, so it is compiled in addition to the form that always fits, and a
call takes the one that fits its sizes and addresses; the two divide a fold differently among threads, so sums may
differ by rounding. In the *register-resident* form a row up to some length stays in registers from one loop to the next
(:mod:`zenith.backends.cuda.register_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from zenith.backends.cuda.operand_staging import sides
from zenith.backends.cuda.register_matrices import PER_CHUNK, threads
from zenith.backends.cuda.register_rows import THREADS as LARGEST_ROW_TEAM
from zenith.backends.cuda.register_rows import RegisterRows, register_rows, row_team
from zenith.backends.cuda.shared import scheduled
from zenith.backends.expressions import Apply, Expr, Load
from zenith.backends.kernel import (
    Accumulator,
    Bind,
    Check,
    Fold,
    Kernel,
    Let,
    Loop,
    Running,
    Scratch,
    Statement,
    Store,
    Strip,
    TaskLoop,
    inner,
    walk,
)
from zenith.backends.lower.collapse import step
from zenith.backends.memory_effects import buffers_of, index_expressions
from zenith.backends.tiles import PackPanel, ProductTile, RegisterMatrix, SharedProduct, SoftmaxTile, StageTile
from zenith.ir.dims import Dim, Opaque

ACCESS = 16  # bytes of the widest load and store
WIDEST = 16  # elements
WIDEST_SCRATCH = 8  # elements of shared memory, whose positions are multiples of this by construction
WARP = 32  # threads that run in step
BLOCK = 256  # threads of a team that is a whole block
LONGEST_32 = 1 << 31  # elements of a buffer, or iterations of loops, from which indices need 64 bits


@dataclass(frozen=True, slots=True)
class KernelForm:
    """How a kernel is printed: the type of its indices, and how many neighbours are accessed at once.

    With ``iterations``, the iterations of a thread over a row, rows are register-resident: a thread has so many times
    ``width`` elements of each, and where the length of rows is known, ``team`` threads share one.
    """

    index: str = "u32"
    width: int = 1
    iterations: int = 0
    team: int | None = None

    def __str__(self) -> str:
        return f"{self.index}x{self.width}" + (f" resident {self.iterations}" if self.iterations else "")


@dataclass(frozen=True, slots=True)
class VectorAccess:
    """Neighbouring elements of a buffer: a position ``at`` that grows with a loop's variable by one.

    ``start`` is the same without the names that the loop's body binds.
    """

    buffer: str
    at: Dim
    start: Dim


@dataclass(frozen=True, slots=True)
class WideLoop:
    """A loop that can be wide: its wide accesses, and the sizes that have to be multiples of the width.

    A product on tensor cores counts as one: the operands named in ``sides`` are copied ``chunk`` elements at a time,
    whatever the width.
    """

    reads: tuple[VectorAccess, ...]
    writes: tuple[VectorAccess, ...]
    multiples: tuple[Dim, ...]
    sides: tuple[str, ...] = ()
    chunk: int = 0

    @property
    def buffers(self) -> set[str]:
        """The buffers whose addresses have to be aligned."""
        return {a.buffer for a in (*self.reads, *self.writes)}


@dataclass(frozen=True, slots=True)
class WideLoops:
    """How many elements a kernel's wide loops access at once, and these loops by the ``id`` of their statements."""

    width: int
    loops: Mapping[int, WideLoop]


def is_team(kernel: Kernel) -> bool:
    """Whether a task is computed by several threads."""
    return any(_joins(s) for s in kernel.body)


def is_block(kernel: Kernel) -> bool:
    """Whether a task is computed by a whole block, whose threads share memory."""
    return any(isinstance(s, Scratch | SharedProduct | SoftmaxTile | RegisterMatrix) for s in walk(kernel.body))


def block_threads(kernel: Kernel) -> int:
    """The threads of a team that is a whole block; schedules of products and register matrices may say how many."""
    wanted = [p.schedule.threads for p in scheduled(kernel) if p.schedule]
    wanted += [threads(s.rows) for s in walk(kernel.body) if isinstance(s, RegisterMatrix)]
    return max(wanted, default=BLOCK)


def _joins(statement: Statement) -> bool:
    """Whether a statement is work for a team; a fold inside lanes is a thread's own."""
    if isinstance(
        statement, Fold | Running | Scratch | RegisterMatrix | SharedProduct | ProductTile | PackPanel | SoftmaxTile
    ):
        return True
    if isinstance(statement, TaskLoop | Loop) and statement.lanes:
        return False
    return any(map(_joins, inner(statement)))


def forms(kernel: Kernel) -> tuple[KernelForm, ...]:
    """The forms that are compiled ahead: one that always fits, a wide one where there is something wide.

    Where rows fit registers, the register-resident form replaces each when the length of rows is known; when it is not,
    that form is the third.
    """
    width = wide_loops(kernel).width if kernel.wide else 1
    plain = (KernelForm(), KernelForm(width=width)) if width > 1 else (KernelForm(),)
    found = register_rows(kernel)
    if found is None:
        return plain
    resident = [_resident_form(found, form.width) for form in plain]
    if found.extent.static is not None:
        return tuple(r or form for r, form in zip(resident, plain, strict=True))
    return plain if resident[-1] is None else (*plain, resident[-1])


def _resident_form(rows: RegisterRows, width: int) -> KernelForm | None:
    """The register-resident form of this width; None where registers are too few, or loops differ in width."""
    wide = wide_loops(rows.kernel).loops
    if width > 1 and not all(id(s) in wide for s in register_loops(rows.kernel)):
        return None
    iterations, length = rows.iterations(width), rows.extent.static
    if iterations < 1:
        return None
    if length is None:
        return KernelForm(width=width, iterations=iterations)
    team = row_team(length, width, iterations)
    return KernelForm(width=width, iterations=iterations, team=team) if team <= LARGEST_ROW_TEAM else None


def register_loops(kernel: Kernel) -> tuple[Statement, ...]:
    """The loops of a kernel with register-resident rows that access these rows."""
    strips = {s.name for s in walk(kernel.body) if isinstance(s, Strip)}
    return tuple(s for s in walk(kernel.body) if isinstance(s, Loop | Fold) and strips & buffers_of((s,)))


def printed(kernel: Kernel, form: KernelForm) -> Kernel:
    """The kernel whose statements a form prints: with rows in registers or as it is."""
    rows = register_rows(kernel) if form.iterations else None
    return kernel if rows is None else rows.kernel


def fits(kernel: Kernel, form: KernelForm, sizes: Mapping[str, int], addresses: Sequence[int]) -> bool:
    """Whether a form is right for a call's sizes and the addresses of its buffers."""
    if form.index == "u32" and any(size.evaluate(sizes) >= LONGEST_32 for size in _spans(kernel)):
        return False
    if form.iterations and form.team is None:
        rows = register_rows(kernel)
        assert rows is not None, "only kernels with register-resident rows have this form"
        if rows.extent.evaluate(sizes) > form.iterations * form.width * LARGEST_ROW_TEAM:
            return False
    if form.width == 1:
        return True
    at = {b.name: (address, b.dtype.itemsize) for b, address in zip(kernel.buffers, addresses, strict=True)}
    for loop in wide_loops(printed(kernel, form)).loops.values():
        width = loop.chunk or form.width
        if any(at[name][0] % (at[name][1] * width) for name in loop.buffers & at.keys()):
            return False
        if any(size.evaluate(sizes) % width for size in loop.multiples):
            return False
    return True


def _spans(kernel: Kernel) -> set[Dim]:
    """The sizes that bound indices: those of buffers and tasks, and of loops whose range is no buffer's size."""
    sizes = {*kernel.sizes}
    found = {b.size for b in kernel.buffers} | {kernel.tasks}
    for at in index_expressions(kernel.body):
        found |= {factor for factor in _factors(at, sizes) if factor.static is None}
    return found


def _factors(at: Dim, sizes: AbstractSet[str]) -> Iterator[Dim]:
    """The terms of an expression, and of the atoms in it, without the factors that are no sizes."""
    for monomial, coefficient in at.terms:
        yield Dim({tuple(a for a in monomial if isinstance(a, str) and a in sizes): abs(coefficient)})
        for atom in monomial:
            if isinstance(atom, Opaque):
                yield from _factors(atom.left, sizes)
                yield from _factors(atom.right, sizes)


def wide_loops(kernel: Kernel) -> WideLoops:
    """The loops of a kernel that can be wide: the tasks of threads, lanes and folds of teams."""
    found: dict[int, WideLoop] = {}
    sizes, team = {*kernel.sizes}, is_team(kernel)
    memory = {s.name: False for s in walk(kernel.body) if isinstance(s, Strip)} | {b.name: True for b in kernel.buffers}
    scratch = {s.name for s in walk(kernel.body) if isinstance(s, Scratch)}

    def find(statements: Sequence[Statement], known: Mapping[str, Dim]) -> None:
        known = dict(known)
        for s in statements:
            if isinstance(s, Bind):
                known[s.name] = s.at.substitute(known)
            wide = _as_wide(s, known, sizes, memory, scratch, team)
            if wide is not None:
                found[id(s)] = wide
            else:
                find(inner(s), known)

    find(kernel.body, {})
    wide = {b for loop in found.values() for b in loop.buffers}
    most = WIDEST_SCRATCH if wide & scratch else WIDEST
    width = min([most, *(ACCESS // b.dtype.itemsize for b in kernel.buffers if b.name in wide)])
    if not team and any(id(s) not in found for s in walk(kernel.body) if isinstance(s, TaskLoop)):
        return WideLoops(1, {})  # tasks come in groups for all of a kernel or for none
    even = {i: w for i, w in found.items() if all((m.static or 0) % (w.chunk or width) == 0 for m in w.multiples)}
    whole = even and (team or len(even) == len(found))
    return WideLoops(width, even) if whole else WideLoops(1, {})


def _as_wide(
    s: Statement,
    known: Mapping[str, Dim],
    sizes: AbstractSet[str],
    memory: Mapping[str, bool],
    scratch: AbstractSet[str],
    team: bool,
) -> WideLoop | None:
    """A statement as a wide loop; None where it is none."""
    if isinstance(s, TaskLoop) and s.lanes and not team:
        bound = dict(known)
        bound.update((b.name, b.at.substitute(bound)) for b in s.before if isinstance(b, Bind))
        return _wide(s.lane, s.body, (), (s.extent,), bound, sizes, memory, scratch)
    if isinstance(s, SharedProduct) and s.schedule is not None:
        return _wide_product(s, known, sizes)
    if isinstance(s, StageTile):
        return _wide_copy(s, known, sizes)
    if isinstance(s, Loop) and s.lanes and team:
        return _wide(s.index, s.body, (), (s.start, s.stop), known, sizes, memory, scratch)
    if isinstance(s, Fold) and team:
        return _wide(s.index, s.body, s.accumulators, (s.start, s.stop), known, sizes, memory, scratch)
    return None


def _wide(
    variable: str, body: Sequence[Statement], accumulators: Sequence[Accumulator], limits: Sequence[Dim],
    known: Mapping[str, Dim], sizes: AbstractSet[str], memory: Mapping[str, bool], scratch: AbstractSet[str],
) -> WideLoop | None:  # fmt: skip
    """A loop as a wide one; accesses of scratch memory are wide, too, where positions are multiples by construction."""
    if not all(isinstance(s, Let | Store | Check | Bind) for s in body):
        return None
    seen = _LoopAccesses(variable, known, {**memory, **dict.fromkeys(scratch, True)})
    for s in body:
        seen.statement(s)
    for accumulator in accumulators:
        seen.loads(accumulator.value)
    for found in (seen.reads, seen.writes):
        for access in [a for a in found if a.buffer in scratch]:
            strides = _multiples(access.start.substitute(known), variable, sizes)
            if any(m.static is None or m.static % WIDEST_SCRATCH for m in strides):
                del found[access]
    accesses = [a for a in (*seen.reads, *seen.writes) if memory.get(a.buffer)]
    positions = (*limits, *(a.start for a in accesses))
    multiples = [m for at in positions for m in _multiples(at.substitute(known), variable, sizes)]
    if not (accesses or seen.has_strips) or seen.is_entangled() or any(m.symbols() - sizes for m in multiples):
        return None
    return WideLoop(tuple(seen.reads), tuple(seen.writes), tuple(dict.fromkeys(multiples)))


def _wide_product(s: SharedProduct, known: Mapping[str, Dim], sizes: AbstractSet[str]) -> WideLoop | None:
    """A product as a wide loop that copies operands 16 bytes at a time: those that are dense along one axis."""
    reads, multiples, chunk = list[VectorAccess](), list[Dim](), 0
    copied = list[str]()
    for side in sides(s):
        operand, chunk = side.operand, side.chunk
        along = int(side.along_terms)
        needed = (*operand.even(along), (side.count, s.terms)[along])
        found = [m for at in needed for m in _multiples(at.substitute(known), "", sizes)]
        uneven = any((m.static or 0) % chunk for m in found)
        if operand.strides[along] != 1 or uneven or any(m.symbols() - sizes for m in found):
            continue
        copied.append(side.name)
        reads.append(VectorAccess(operand.buffer, operand.at, operand.at.substitute(known)))
        multiples += found
    return WideLoop(tuple(reads), (), tuple(dict.fromkeys(multiples)), tuple(copied), chunk) if copied else None


def _wide_copy(s: StageTile, known: Mapping[str, Dim], sizes: AbstractSet[str]) -> WideLoop | None:
    """A copy of a tile 16 bytes at a time, where rows are dense."""
    needed = (s.source.at, s.source.strides[0], s.width)
    found = [m for at in needed for m in _multiples(at.substitute(known), "", sizes)]
    uneven = any((m.static or 0) % PER_CHUNK for m in found)
    if s.source.strides[1] != 1 or uneven or any(m.symbols() - sizes for m in found):
        return None
    read = VectorAccess(s.source.buffer, s.source.at, s.source.at.substitute(known))
    return WideLoop((read,), (), tuple(dict.fromkeys(found)), ("source",), PER_CHUNK)


class _LoopAccesses:
    """The accesses of a loop's body to memory; ``known`` are the names that were bound around it.

    ``memory`` says of each buffer whether it is in memory, not a strip.
    """

    def __init__(self, variable: str, known: Mapping[str, Dim], memory: Mapping[str, bool]) -> None:
        self.variable, self.known, self.memory, self.has_strips = variable, known, memory, False
        self.bound: dict[str, Dim] = {}
        self.varying: set[str] = set()
        self.reads: dict[VectorAccess, None] = {}
        self.writes: dict[VectorAccess, None] = {}
        self.touched: dict[str, set[tuple[Dim, bool]]] = {}

    def statement(self, s: Statement) -> None:
        """Note the accesses of a statement."""
        match s:
            case Bind(name, at):
                self.bound[name] = at.substitute(self.bound)
            case Let(name, value) | Check(name, value):
                self.loads(value)
                self.varying.add(name)
            case Store(buffer, at, value):
                self.loads(value)
                self.access(buffer, at, True)

    def loads(self, expr: Expr) -> None:
        """Note the reads of an expression."""
        if isinstance(expr, Load):
            self.access(expr.buffer, expr.at, False)
        elif isinstance(expr, Apply):
            for a in expr.args:
                self.loads(a)

    def access(self, buffer: str, at: Dim, written: bool) -> None:
        """Note the access to one element."""
        start = at.substitute(self.bound)
        self.touched.setdefault(buffer, set()).add((start.substitute(self.known), written))
        self.has_strips |= self.memory.get(buffer) is False
        if self.memory.get(buffer) and not start.symbols() & self.varying and step(start, self.variable) == 1:
            (self.writes if written else self.reads)[VectorAccess(buffer, at, start)] = None

    def is_entangled(self) -> bool:
        """Whether one iteration may read what another writes (a loop-carried dependence)."""
        return any(len({at for at, _ in seen}) > 1 and any(w for _, w in seen) for seen in self.touched.values())


def _multiples(at: Dim, variable: str, sizes: AbstractSet[str]) -> Iterator[Dim]:
    """The terms that have to be multiples of the width so that a position is one where its variable is.

    A term counts without the factors that are no sizes: whole numbers that may be anything.
    """
    for monomial, coefficient in at.terms:
        (first, *others) = monomial or ("",)
        if isinstance(first, Opaque) and first.kind in ("min", "max") and not others:
            yield from _multiples(first.left, variable, sizes)
            yield from _multiples(first.right, variable, sizes)
        elif monomial != (variable,):
            yield Dim({tuple(a for a in monomial if isinstance(a, str) and a in sizes): coefficient})
