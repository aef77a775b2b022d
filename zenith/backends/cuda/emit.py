"""Printing a kernel for a GPU: one thread, or one team of threads, a task.

Without reductions a thread takes one task at a time, in the wide form as many neighbouring tasks as one access reads.
A kernel that joins iterations or has tiles gives each task to a *team*: a warp, several, or the whole block. A team's
threads stride along loops over lanes and folds, so that neighbours read neighbouring elements (coalesced); all threads
compute the code outside of these loops, and one stores its results. A fold's partial results are joined by shuffles,
those of several warps through shared memory. All threads walk the tasks in steps of the whole grid (grid-stride loop).

The source is a function of ``(tasks, status, *buffers, *sizes)``, with the size of a team after ``tasks`` when the
launch chooses it. In the wide form of a thread's kernel ``tasks`` counts groups of neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from zenith.backends.cuda import register_matrices, team_reduction, team_scan, tiles, warp_tiles
from zenith.backends.cuda.barriers import Barriers
from zenith.backends.cuda.entry_point import prologue
from zenith.backends.cuda.forms import WARP, WideLoop, block_threads, is_block, is_team, printed, wide_loops
from zenith.backends.cuda.launch import parameters
from zenith.backends.cuda.thread_emit import TASK, ThreadPrinter, first_index, memory_type
from zenith.backends.emit import indented
from zenith.backends.expressions import filled, literal
from zenith.backends.kernel import (
    Accumulator,
    Branch,
    Fold,
    ForEachRegister,
    Kernel,
    LastOf,
    Let,
    Loop,
    Running,
    Scratch,
    Simple,
    Statement,
    Store,
    Strip,
    TaskLoop,
    runs,
    walk,
)
from zenith.backends.memory_effects import buffers_of
from zenith.backends.tiles import FoldRegisters, RegisterMatrix, RegisterProduct, SharedProduct, SoftmaxTile, StageTile
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim
from zenith.ir.types import float32

LANE = "lane"


class CudaPrinter(ThreadPrinter):
    """Prints kernels as Numba-CUDA Python, each in one of its forms."""

    def kernel(self, kernel: Kernel) -> str:
        """The whole source of a kernel."""
        kernel = printed(kernel, self.form)
        self.buffers = {b.name: b.dtype for b in kernel.buffers}
        self.buffers |= {s.name: s.dtype for s in walk(kernel.body) if isinstance(s, Scratch)}
        self.scratch = {s.name for s in walk(kernel.body) if isinstance(s, Scratch)}
        self.row_strips = {s.name for s in walk(kernel.body) if isinstance(s, Strip)}
        self.matrices = {s.name: s for s in walk(kernel.body) if isinstance(s, RegisterMatrix)}
        own_team = str(block_threads(kernel)) if is_block(kernel) else str(self.form.team or "team")
        self.team = own_team if is_team(kernel) else ""
        self.wide = wide_loops(kernel).loops if self.form.width > 1 else {}
        self.barriers = Barriers.of(kernel)
        staged = [s for s in walk(kernel.body) if isinstance(s, StageTile) and s.ahead]
        self.copies_ahead = any(id(s) in self.wide for s in staged)
        self.lane = LANE  # this thread's number among those that share a loop: the team, or a warp of it
        self.inside = ""  # in a loop in chunks: the condition that this thread has an iteration of the chunk
        self.per_thread = not self.team  # whether each thread runs this code for itself, not the team together
        self.strips = {}
        lines = [f"def {kernel.name}({', '.join(parameters(kernel))}):", f'    """{kernel.doc}."""']
        lines += indented(prologue(kernel, self.team, self.index))
        lines.append(f"    while {TASK} < tasks:")
        lines += indented(indented(self.task(kernel)))
        return "\n".join(lines) + "\n"

    def task(self, kernel: Kernel) -> list[str]:
        """The statements of one task, and the step to the next task."""
        lines = self.statements([s for s in kernel.body if not isinstance(s, Scratch)])
        if self.team and self.barriers.pending:
            lines += self.barrier()
        return [*lines, f"{TASK} = {self.index}({TASK} + stride)"]

    # --- expressions ---

    def element(self, buffer: str, at: Dim) -> str:
        if buffer in self.row_strips:
            at_strip = "iteration" if self.form.width == 1 else f"{self.form.width} * iteration + element"
            return f"{buffer}[{self.index}({at_strip})]"
        return super().element(buffer, at)

    # --- statements ---

    def statements(self, body: Sequence[Statement]) -> list[str]:
        """Statements in a row, with the barriers that a team needs between them."""
        lines: list[str] = []
        for s in body:
            is_nest = isinstance(s, TaskLoop | Branch | LastOf) or (
                isinstance(s, Loop) and not s.lanes and not s.warps and not runs(s.body)
            )
            if self.team and self.in_step and not is_nest:
                lines += self.barrier() if self.barriers.is_needed((s,)) else ()
                self.barriers.note((s,))
            lines += self.statement(s)
        return lines

    @property
    def in_step(self) -> bool:
        """Whether all threads of the team reach this code equally often, as a barrier needs."""
        return not self.per_thread and self.lane == LANE

    def statement(self, statement: Statement) -> list[str]:
        match statement:
            case SharedProduct(schedule=schedule) if schedule is not None:
                wide = self.wide.get(id(statement))
                whole = statement.target.buffer in self.scratch
                return list(warp_tiles.product(statement, frozenset(wide.sides if wide else ()), whole, self.indices))
            case SharedProduct():
                return list(tiles.product(statement, self.buffers[statement.target.buffer], self.indices))
            case RegisterMatrix(name, dtype=dtype):
                return [f"{name} = {dtype}_local({register_matrices.registers(statement)})"]
            case StageTile():
                return self.stage(statement)
            case RegisterProduct():
                return list(register_matrices.product(statement, self.indices))
            case SoftmaxTile():
                return list(tiles.softmax(statement, self.expression(statement.scale), self.indices))
        return super().statement(statement)

    def running(self, run: Running) -> list[str]:
        if not self.inside:
            return super().running(run)
        return list(team_scan.lines(run, filled, [self.expression(v) for v in run.values], self.team))

    def stage(self, s: StageTile) -> list[str]:
        """A copy of a tile; the first copy of an iteration waits for the copies of the iteration before."""
        lines = list[str]()
        if s.meets:
            if self.copies_ahead:
                self.barriers.note_copies()
            lines = self.barrier()
        in_chunks = id(s) in self.wide
        if in_chunks and s.ahead:
            self.barriers.note_copies()
        return [*lines, *register_matrices.stage(s, self.buffers[s.target], int(self.team), in_chunks, self.indices)]

    def for_each_register(self, each: ForEachRegister) -> list[str]:
        """A loop over elements in registers: each lane goes through its own."""
        self.per_thread, self.strips = True, register_matrices.element_registers(each, self.matrices)
        before, body = self.statements(each.before), self.statements(each.body)
        self.per_thread, self.strips = False, {}
        return list(register_matrices.each(each, before, body, self.indices))

    def fold_registers(self, fold: FoldRegisters) -> list[str]:
        initial = literal(fold.initial, float32)
        return list(register_matrices.fold(fold, lambda x, y: self.combined(fold.combine, x, y, float32), initial))

    def line(self, statement: Simple) -> str:
        match statement:
            case Strip(name, dtype):
                return f"{name} = {memory_type(dtype)}_local({self.form.iterations * self.form.width})"
            case Store():
                text, guard = super().line(statement), self.inside if self.per_thread else "lane == 0"
                return f"if {guard}: {text}" if guard else text
        return super().line(statement)

    # --- loops and branches ---

    def loop(self, loop: Loop) -> list[str]:
        """A team's threads share the iterations of a loop over lanes; they run those of other loops together."""
        if self.per_thread:
            return super().loop(loop)
        if loop.lanes:
            return self.spread(loop.index, loop.start, loop.stop, self.wide.get(id(loop)), loop.body, ())
        if loop.warps:
            return self.by_warps(loop)
        if runs(loop.body):
            return self.in_chunks(loop.index, loop.start, loop.stop, loop.body, ())
        before, body = self.barriers.since, self.block(loop.body)
        if self.barriers.is_needed(loop.body):  # a loop-carried dependence
            body += indented(self.barrier())
        self.barriers.since |= before  # a loop may have no iteration, and then none of its barriers
        return self.walk(loop.index, self.indices.typed(loop.start), loop.stop, body, "1")

    def by_warps(self, loop: Loop) -> list[str]:
        """A loop whose iterations the team's warps share, while the lanes of a warp share those of the loops inside."""
        team, lane = self.team, self.lane
        self.team, self.lane = str(WARP), f"{self.index}(lane % {WARP})"
        body = self.block(loop.body)
        self.team, self.lane = team, lane
        first = f"{self.index}({self.indices.typed(loop.start)} + {self.index}({lane} // {WARP}))"
        return self.walk(loop.index, first, loop.stop, body, f"{team} // {WARP}")

    def cases(self, branch: Branch) -> list[list[str]]:
        """All threads of a team take the same case; after it, what happened since a barrier may have in any of them."""
        before = after = self.barriers.since
        found = []
        for case in branch.cases:
            self.barriers.since = before
            found.append(self.block(case))
            after |= self.barriers.since
        self.barriers.since = after
        return found

    def last(self, last: LastOf) -> list[str]:
        """One thread counts its team as arrived, once all of it have written; the last team to arrive runs the body."""
        if self.team in ("", "team"):
            raise UnsupportedError("only whole blocks of threads count each other",
                                   fix="this is a defect of Zenith: report it with your program")  # fmt: skip
        at, barrier = self.size(last.at), self.barrier()
        lines = [*barrier, f"if lane == 0: ticket[0] = arrive({last.counters}, {at})", *barrier]
        lines.append(f"if {self.index}(ticket[0] + 1) == {self.indices.typed(last.count)}:")
        return [*lines, f"    if lane == 0: {last.counters}[{at}] = 0", *self.block(last.body)]

    # --- iterations that the threads of a team share ---

    def spread(
        self, index: str, start: Dim, stop: Dim, wide: WideLoop | None,
        body: Sequence[Statement], accumulators: Sequence[Accumulator],
    ) -> list[str]:  # fmt: skip
        """A loop whose iterations the threads of the team share."""
        self.per_thread = True
        if wide is None:
            inside = [*self.statements(body), *self.joined(accumulators)]
        else:
            inside = self.neighbours(index, wide, body, accumulators)
        self.per_thread = False
        width = 1 if wide is None else self.form.width
        first = self.lane if width == 1 else f"{self.index}({width} * {self.lane})"
        if start != 0:
            first = f"{self.index}({self.indices.typed(start)} + {first})"
        name = index if wide is None else first_index(index)
        if self.row_strips & buffers_of((*body, *(Let(a.name, a.value) for a in accumulators))):
            return self.unrolled(name, first, stop, inside)
        step = self.team if width == 1 else f"{width} * {self.team}"
        return self.walk(name, first, stop, indented(inside), step)

    def unrolled(self, index: str, first: str, stop: Dim, body: list[str]) -> list[str]:
        """A loop over a register-resident row: all such loops have as many iterations, which the compiler unrolls."""
        u, width = self.index, self.form.width
        step = f"{width} * iteration * {u}(team)" if self.team == "team" else f"{width * int(self.team)} * iteration"
        inside = [f"{index} = {u}({first} + {u}({step}))"]
        if stop == (self.form.team or 0) * width * self.form.iterations:
            inside += body
        else:
            inside += [f"if {index} < {self.indices.typed(stop)}:", *indented(body)]
        return [f"for iteration in range({self.form.iterations}):", *indented(inside)]

    def fold(self, fold: Fold) -> list[str]:
        """Each thread joins its share of the iterations, then the team joins the threads' partial results."""
        if self.per_thread:
            return super().fold(fold)
        lines = self.starts(fold.accumulators)
        if runs(fold.body):
            lines += self.in_chunks(fold.index, fold.start, fold.stop, fold.body, fold.accumulators)
        else:
            wide = self.wide.get(id(fold))
            lines += self.spread(fold.index, fold.start, fold.stop, wide, fold.body, fold.accumulators)
        return lines + list(team_reduction.lines(fold.accumulators, self.join, self.team))

    def in_chunks(
        self, index: str, start: Dim, stop: Dim, body: Sequence[Statement], accumulators: Sequence[Accumulator]
    ) -> list[str]:
        """A loop with a running value (a prefix): a chunk at a time, one iteration for each thread.

        In the last chunk threads without an iteration compute the last one a second time, and store nothing.
        """
        u, chunk = self.index, f"{index}_chunk"
        lines = self.starts(runs(tuple(body)), "_before")
        self.per_thread, self.inside = True, f"{index}_inside"
        inside = [f"{index} = {u}({chunk} + {self.lane})", f"{self.inside} = {index} < {self.indices.typed(stop)}"]
        inside.append(f"if not {self.inside}: {index} = {self.size(stop - 1)}")
        inside += self.statements(body)
        inside += [f"if {self.inside}: {line}" for line in self.joined(accumulators)]
        self.per_thread, self.inside = False, ""
        return lines + self.walk(chunk, self.indices.typed(start), stop, indented(inside), self.team)

    def barrier(self) -> list[str]:
        """A barrier of the team."""
        return self.barriers.barrier(self.team)
