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

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from zenith.backends.cuda import cooperative_loops, register_matrices, tiles, warp_tiles
from zenith.backends.cuda.barriers import Barriers
from zenith.backends.cuda.forms import KernelForm, WideLoop, block_threads, is_block, is_team, printed, wide_loops
from zenith.backends.cuda.index import Indices, signed
from zenith.backends.cuda.shared import divided, scheduled
from zenith.backends.emit import Printer
from zenith.backends.expressions import Expr, Load, Number, Position
from zenith.backends.kernel import (
    Accumulator,
    Bind,
    Branch,
    CallInnerLoop,
    CallNative,
    Check,
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
    UserCode,
    runs,
    walk,
)
from zenith.backends.memory_effects import buffers_of
from zenith.backends.tiles import (
    FoldRegisters,
    PackPanel,
    ProductTile,
    RegisterMatrix,
    RegisterProduct,
    SharedProduct,
    SoftmaxTile,
    StageTile,
)
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim, symbol
from zenith.ir.types import DType, bool_, float32

TASK = "task"
LANE = "lane"
WARP = 32
THIS_THREAD = "cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x"
_OF_INTERVALS = re.compile(r"\b(begin|end)\b")
ALL_THREADS = "cuda.gridDim.x * cuda.blockDim.x"


class CudaPrinter(Printer):
    """Prints kernels as Numba-CUDA Python, each in one of its forms."""

    def __init__(self, form: KernelForm | None = None, with_lines: bool = True) -> None:
        super().__init__(with_lines)
        self.form = form or KernelForm()
        self.indices = Indices(self.form.index)
        self.index = self.form.index

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
        self.copying = False  # whether asynchronous copies are in flight
        staged = [s for s in walk(kernel.body) if isinstance(s, StageTile) and s.ahead]
        self.copies_ahead = any(id(s) in self.wide for s in staged)
        self.lane = LANE  # this thread's number among those that share a loop: the team, or a warp of it
        self.inside = ""  # in a loop in chunks: the condition that this thread has an iteration of the chunk
        self.per_thread = not self.team  # whether each thread runs this code for itself, not the team together
        self.strips: dict[tuple[str, Dim], str] = {}  # how elements in registers are written, by buffer and index
        lines = [f"def {kernel.name}({', '.join(parameters(kernel))}):", f'    """{kernel.doc}."""']
        lines += ["    " + line for line in self.prologue(kernel)]
        lines.append(f"    while {TASK} < tasks:")
        lines += ["        " + line for line in self.task(kernel)]
        return "\n".join(lines) + "\n"

    def task(self, kernel: Kernel) -> list[str]:
        """The statements of one task, and the step to the next task."""
        lines = self.statements([s for s in kernel.body if not isinstance(s, Scratch)])
        if self.team and self.barriers.pending:
            lines += self.barrier()
        return [*lines, f"{TASK} = {self.index}({TASK} + stride)"]

    def prologue(self, kernel: Kernel) -> list[str]:
        """A comment for each buffer, shared memory, and the first task of this thread or team with its stride."""
        lines = [f"# {b.name}: {b.role}, {b.size} elements of {b.dtype}" for b in kernel.buffers]
        lines += self.shared_memory(kernel)
        products = [s for s in walk(kernel.body) if isinstance(s, SharedProduct) and s.schedule is None]
        if products:
            lines += tiles.staging(products, self.buffers[products[0].target.buffer])
        if any(isinstance(s, LastOf) for s in walk(kernel.body)):
            lines.append("ticket = i32_shared(1)")
        if self.team:
            joined = (a.dtype for s in walk(kernel.body) if isinstance(s, Fold) for a in s.accumulators)
            exchange = [f"{d}_warps = {_memory(d)}_shared({WARP})" for d in joined]
            exchange += cooperative_loops.shared([s for s in walk(kernel.body) if isinstance(s, Running)])
            lines += dict.fromkeys(exchange)
        return lines + self.my_tasks(kernel)

    def shared_memory(self, kernel: Kernel) -> list[str]:
        """Scratch buffers: an array each, or ranges of one array that a launch requests."""
        memory, scratch = divided(kernel), [s for s in walk(kernel.body) if isinstance(s, Scratch)]
        if memory is None:
            return [f"{s.name} = {_memory(s.dtype)}_shared({s.length})" for s in scratch]
        lines = [f"tile_memory = u8_{'dynamic' if memory.dynamic else 'shared'}({memory.bytes})"]
        for s in scratch:
            lines.append(f"{s.name} = {_memory(s.dtype)}_within(tile_memory, {memory.scratch[s.name]})")
        return [*lines, *warp_tiles.staging(scheduled(kernel), memory.staged)]

    def my_tasks(self, kernel: Kernel) -> list[str]:
        """The first task, and how far it is to the next one."""
        u = self.index
        if not self.team:
            return [f"{TASK} = {u}({THIS_THREAD})", f"stride = {u}({ALL_THREADS})"]
        if is_block(kernel):
            return [f"lane = {u}(cuda.threadIdx.x)", f"{TASK} = {u}(cuda.blockIdx.x)", f"stride = {u}(cuda.gridDim.x)"]
        return [
            f"lane = {u}(cuda.threadIdx.x % {self.team})",
            f"{TASK} = {u}(({THIS_THREAD}) // {self.team})",
            f"stride = {u}(({ALL_THREADS}) // {self.team})",
        ]

    # --- expressions ---

    def size(self, at: Dim) -> str:
        return self.indices.text(at)

    def expression(self, expr: Expr) -> str:
        match expr:
            case Load(buffer, at, dtype):
                element = self.element(buffer, at)
                return f"({element} != 0)" if dtype == bool_ else element
            case Position(at):
                return signed(at)
        return super().expression(expr)

    def element(self, buffer: str, at: Dim) -> str:
        """An element of a buffer in memory, or of a strip in this thread's registers."""
        if buffer in self.row_strips:
            at_strip = "iteration" if self.form.width == 1 else f"{self.form.width} * iteration + element"
            return f"{buffer}[{self.index}({at_strip})]"
        strip = self.strips.get((buffer, at))
        return strip or f"{buffer}[{self.size(at)}]"

    # --- statements ---

    def statements(self, body: Sequence[Statement]) -> list[str]:
        """Statements in a row, with the barriers that a team needs between them."""
        lines: list[str] = []
        for s in body:
            is_nest = isinstance(s, TaskLoop | Branch | LastOf) or (
                isinstance(s, Loop) and not s.lanes and not s.warps and not runs(s.body)
            )
            if self.team and self.in_step and not is_nest and self.barriers.enter((s,)):
                lines += self.barrier()
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
            case UserCode(text) if _OF_INTERVALS.search(text):
                raise UnsupportedError("a written kernel goes through an interval of tasks, which no GPU thread has",
                                       fix="compile this function for the cpu backend")  # fmt: skip
            case CallNative() | CallInnerLoop():
                raise UnsupportedError("a native function from outside runs on the CPU only",
                                       fix="compile this function for the cpu backend")  # fmt: skip
            case ProductTile() | PackPanel():
                raise UnsupportedError(f"{type(statement).__name__} has no CUDA form: it was written for the CPU",
                                       fix="compile this function for the cpu backend")  # fmt: skip
        return super().statement(statement)

    def typed_index(self, text: str) -> str:
        return f"{self.index}({text})"

    def running(self, run: Running) -> list[str]:
        if not self.inside:
            return super().running(run)
        return list(cooperative_loops.lines(run, self.apply, [self.expression(v) for v in run.values], self.team))

    def stage(self, s: StageTile) -> list[str]:
        """A copy of a tile; the first copy of an iteration waits for the copies of the iteration before."""
        lines = list[str]()
        if s.meets:
            self.copying |= self.copies_ahead
            lines = self.barrier()
            self.barriers.meet()
        in_chunks = id(s) in self.wide
        self.copying |= in_chunks and s.ahead
        return [*lines, *register_matrices.stage(s, self.buffers[s.target], int(self.team), in_chunks, self.indices)]

    def for_each_register(self, each: ForEachRegister) -> list[str]:
        """A loop over elements in registers: each lane goes through its own."""
        self.per_thread, self.strips = True, register_matrices.element_registers(each, self.matrices)
        before, body = self.statements(each.before), self.statements(each.body)
        self.per_thread, self.strips = False, {}
        return list(register_matrices.each(each, before, body, self.indices))

    def fold_registers(self, fold: FoldRegisters) -> list[str]:
        initial = self.expression(Number(fold.initial, float32))
        return list(register_matrices.fold(fold, lambda x, y: self._combine(fold.combine, x, y, float32), initial))

    def block(self, statements: Sequence[Statement]) -> list[str]:
        return ["    " + line for line in self.statements(statements)]

    def line(self, statement: Simple) -> str:
        match statement:
            case Bind(name, at):
                return f"{name} = {self.indices.typed(at)}"
            case Strip(name, dtype):
                return f"{name} = {_memory(dtype)}_local({self.form.iterations * self.form.width})"
            case Store(buffer, at, value):
                text = self.expression(value)
                text = f"u8({text})" if value.dtype == bool_ else text
                text = f"{self.element(buffer, at)} = {text}"
                guard = self.inside if self.per_thread else "lane == 0"
                return f"if {guard}: {text}" if guard else text
            case Check(name, value, size, line):
                assert not statement.wraps, "only sequential kernels of the CPU have such checks"
                text = f"checked({self.expression(value)}, {signed(size)}, {statement.code}, status)"
                return self._with_line(f"{name} = {self.index}({text})", line)
        return super().line(statement)

    def tasks(self, loop: TaskLoop) -> list[str]:
        """The indices of this thread's task, and its statements."""
        u, wide = self.index, self.wide.get(id(loop))
        here = TASK if wide is None else f"{u}({self.form.width} * {TASK})"
        lane = loop.lane if wide is None else self.first(loop.lane)
        lines = [f"{lane} = {here}"]
        if loop.row is not None:
            extent = self.indices.typed(loop.extent)
            lines = [f"{loop.row} = {u}({here} // {extent})", f"{lane} = {u}({here} - {loop.row} * {extent})"]
        lines += self.statements(loop.before)
        return lines + (self.statements(loop.body) if wide is None else self.neighbours(loop.lane, wide, loop.body, ()))

    def first(self, variable: str) -> str:
        """The variable that holds a loop's index at the first of ``width`` neighbours."""
        return f"{variable}_first"

    def neighbours(
        self, variable: str, wide: WideLoop, body: Sequence[Statement], accumulators: Sequence[Accumulator]
    ) -> list[str]:
        """The statements for ``width`` neighbours from the first on: read all, compute each, write all."""
        width, first = self.form.width, self.first(variable)
        starts = dict.fromkeys((a.buffer, a.start) for a in (*wide.reads, *wide.writes))
        counts: Counter[str] = Counter()
        names: dict[tuple[str, Dim], str] = {}
        for buffer, start in starts:
            counts[buffer] += 1
            names[buffer, start] = f"{buffer}_strip{counts[buffer] if counts[buffer] > 1 else ''}"
        read, written = ({(a.buffer, a.start) for a in accesses} for accesses in (wide.reads, wide.writes))
        lines, ends = list[str](), list[str]()
        for (buffer, start), name in names.items():
            at = self.size(start.substitute({variable: symbol(first)}))
            initial = f"load_{width}({buffer}, {at})" if (buffer, start) in read else f"strip_{width}({buffer})"
            lines.append(f"{name} = {initial}")
            if (buffer, start) in written:
                ends.append(f"store_{width}({buffer}, {at}, {name})")
        accesses = (*wide.reads, *wide.writes)
        self.strips = {(a.buffer, a.at): f"{names[a.buffer, a.start]}[element]" for a in accesses}
        inside = [f"{variable} = {self.index}({first} + {self.index}(element))"]
        inside += [*self.statements(body), *self.joined(accumulators)]
        self.strips = {}
        return [*lines, f"for element in range({width}):", *("    " + line for line in inside), *ends]

    def loop(self, loop: Loop) -> list[str]:
        """A team's threads share the iterations of a loop over lanes; they run those of other loops together."""
        if loop.lanes and not self.per_thread:
            return self.spread(loop.index, loop.start, loop.stop, self.wide.get(id(loop)), loop.body, ())
        if loop.warps and not self.per_thread:
            return self.by_warps(loop)
        if runs(loop.body) and not self.per_thread:
            return self.in_chunks(loop.index, loop.start, loop.stop, loop.body, ())
        before, copying = self.barriers.state, self.copying
        body = self.block(loop.body)
        if not self.per_thread and self.barriers.is_loop_carried(loop.body):
            body += ["    " + line for line in self.barrier()]
            self.barriers.meet()
        self.barriers.join(before)  # a loop may have no iteration, and then none of its barriers
        self.copying |= copying
        initial = [f"{r.name} = {self.expression(r.initial)}" for r in runs(loop.body)]
        return initial + self.walk(loop.index, self.indices.typed(loop.start), loop.stop, body, "1")

    def by_warps(self, loop: Loop) -> list[str]:
        """A loop whose iterations the team's warps share, while the lanes of a warp share those of the loops inside."""
        team, lane = self.team, self.lane
        self.team, self.lane = str(WARP), f"{self.index}(lane % {WARP})"
        body = self.block(loop.body)
        self.team, self.lane = team, lane
        first = f"{self.index}({self.indices.typed(loop.start)} + {self.index}({lane} // {WARP}))"
        return self.walk(loop.index, first, loop.stop, body, f"{team} // {WARP}")

    def branch(self, branch: Branch) -> list[str]:
        """All threads of a team take the same branch; the state after it joins those of all branches."""
        before, copying, lines = self.barriers.state, self.copying, list[str]()
        states, copies = [before], [copying]
        for number, case in enumerate(branch.cases, branch.first):
            self.barriers.state, self.copying = before, copying
            lines += [f"{'elif' if lines else 'if'} {self.size(branch.at)} == {number}:", *self.block(case)]
            states.append(self.barriers.state)
            copies.append(self.copying)
        self.copying = any(copies)
        read, written = zip(*states, strict=True)
        self.barriers.state = frozenset().union(*read), frozenset().union(*written)
        return lines

    def last(self, last: LastOf) -> list[str]:
        """One thread counts its team as arrived, once all of it have written; the last team to arrive runs the body."""
        if self.team in ("", "team"):
            raise UnsupportedError("only whole blocks of threads count each other",
                                   fix="this is a defect of Zenith: report it with your program")  # fmt: skip
        at, barrier = self.size(last.at), self.barrier()
        self.barriers.state = frozenset(), frozenset()
        lines = [*barrier, f"if lane == 0: ticket[0] = arrive({last.counters}, {at})", *barrier]
        lines.append(f"if {self.index}(ticket[0] + 1) == {self.indices.typed(last.count)}:")
        return [*lines, f"    if lane == 0: {last.counters}[{at}] = 0", *self.block(last.body)]

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
        name = index if wide is None else self.first(index)
        if self.row_strips & buffers_of((*body, *(Let(a.name, a.value) for a in accumulators))):
            return self.unrolled(name, first, stop, inside)
        step = self.team if width == 1 else f"{width} * {self.team}"
        return self.walk(name, first, stop, ["    " + line for line in inside], step)

    def walk(self, index: str, first: str, stop: Dim, body: list[str], step: str) -> list[str]:
        """A ``while`` loop from ``first`` to ``stop``, exclusive, by ``step``."""
        end = f"    {index} = {self.index}({index} + {step})"
        return [f"{index} = {first}", f"while {index} < {self.indices.typed(stop)}:", *body, end]

    def unrolled(self, index: str, first: str, stop: Dim, body: list[str]) -> list[str]:
        """A loop over a register-resident row: all such loops have as many iterations, which the compiler unrolls."""
        u, width = self.index, self.form.width
        step = f"{width} * iteration * {u}(team)" if self.team == "team" else f"{width * int(self.team)} * iteration"
        inside = [f"{index} = {u}({first} + {u}({step}))"]
        if stop == (self.form.team or 0) * width * self.form.iterations:
            inside += body
        else:
            inside += [f"if {index} < {self.indices.typed(stop)}:", *("    " + line for line in body)]
        return [f"for iteration in range({self.form.iterations}):", *("    " + line for line in inside)]

    def fold(self, fold: Fold) -> list[str]:
        """Each thread joins its share of the iterations, then the team joins the threads' partial results."""
        lines = [f"{a.name} = {self.expression(Number(a.initial, a.dtype))}" for a in fold.accumulators]
        if runs(fold.body) and not self.per_thread:
            lines += self.in_chunks(fold.index, fold.start, fold.stop, fold.body, fold.accumulators)
            return lines + self.join_team(fold.accumulators)
        if self.per_thread:
            lines += [f"{r.name} = {self.expression(r.initial)}" for r in runs(fold.body)]
            body = [*self.block(fold.body), *("    " + line for line in self.joined(fold.accumulators))]
            return lines + self.walk(fold.index, self.indices.typed(fold.start), fold.stop, body, "1")
        wide = self.wide.get(id(fold))
        lines += self.spread(fold.index, fold.start, fold.stop, wide, fold.body, fold.accumulators)
        return lines + self.join_team(fold.accumulators)

    def in_chunks(
        self, index: str, start: Dim, stop: Dim, body: Sequence[Statement], accumulators: Sequence[Accumulator]
    ) -> list[str]:
        """A loop with a running value (a prefix): a chunk at a time, one iteration for each thread.

        In the last chunk threads without an iteration compute the last one a second time, and store nothing.
        """
        u, chunk = self.index, f"{index}_chunk"
        lines = [f"{r.name}_before = {self.expression(r.initial)}" for r in runs(tuple(body))]
        self.per_thread, self.inside = True, f"{index}_inside"
        inside = [f"{index} = {u}({chunk} + {self.lane})", f"{self.inside} = {index} < {self.indices.typed(stop)}"]
        inside.append(f"if not {self.inside}: {index} = {self.size(stop - 1)}")
        inside += self.statements(body)
        inside += [f"if {self.inside}: {line}" for line in self.joined(accumulators)]
        self.per_thread, self.inside = False, ""
        return lines + self.walk(chunk, self.indices.typed(start), stop, ["    " + line for line in inside], self.team)

    def joined(self, accumulators: Sequence[Accumulator]) -> Iterator[str]:
        """The lines that join each accumulator with its value of this iteration."""
        return self._joins(accumulators, lambda a: self.expression(a.value))

    def _joins(self, accumulators: Sequence[Accumulator], value: Callable[[Accumulator], str]) -> Iterator[str]:
        for a in accumulators:
            yield f"{a.name} = {a.dtype}({self._combine(a.combine, a.name, value(a), a.dtype)})"

    def join_team(self, accumulators: Sequence[Accumulator]) -> list[str]:
        """Join the results of a warp's threads by butterfly shuffles, those of warps one after the other."""
        lines = [f"distance = {WARP // 2}", "while distance > 0:"]
        lines += ("    " + s for s in self._joins(accumulators, lambda a: f"shuffle({a.name}, distance)"))
        lines.append("    distance >>= 1")
        inside = [line for a in accumulators for line in self._join_warps(a)]
        if self.team == str(WARP):
            return lines
        return [*lines, f"if {self.team} > {WARP}:", *("    " + line for line in inside)]

    def _join_warps(self, a: Accumulator) -> list[str]:
        """Every thread joins the results of all warps, in order."""
        warps = f"{a.dtype}_warps"
        return [
            "cuda.syncthreads()",
            f"{warps}[lane // {WARP}] = {_stored(a)}",
            "cuda.syncthreads()",
            f"{a.name} = {_loaded(a, f'{warps}[0]')}",
            "warp = 1",
            f"while warp < {self.team} // {WARP}:",
            *("    " + line for line in self._joins([a], lambda a: _loaded(a, f"{warps}[warp]"))),
            "    warp += 1",
        ]

    def barrier(self) -> list[str]:
        """A barrier of the team, where asynchronous copies of its threads are complete, too."""
        if self.copying:
            self.copying = False
            return ["wait_copies(0)", *self.barrier()]
        if self.team != "team":
            return ["cuda.syncthreads()" if int(self.team) > WARP else "cuda.syncwarp()"]
        return [f"if team > {WARP}:", "    cuda.syncthreads()", "else:", "    cuda.syncwarp()"]


def parameters(kernel: Kernel) -> list[str]:
    """The names of an entry point's parameters, in order."""
    team = ["team"] if is_team(kernel) and not is_block(kernel) else []
    return ["tasks", *team, "status", *(b.name for b in kernel.buffers), *kernel.sizes]


def _memory(dtype: DType) -> str:
    """The type of an element in memory: a bool is a byte."""
    return "u8" if dtype == bool_ else str(dtype)


def _stored(a: Accumulator) -> str:
    return f"u8({a.name})" if a.dtype == bool_ else a.name


def _loaded(a: Accumulator, element: str) -> str:
    return f"({element} != 0)" if a.dtype == bool_ else element
