"""Register-resident rows: what the loops over a row have in common is read, or computed, once.

A row kernel goes through its row several times: for the maximum, for the sum, for the results. In each of these loops a
thread has the same elements. So each thread saves what a later loop would read or compute a second time in a strip of
its own, which the compiler puts in registers when the number of the loops' iterations is a constant. Memory is read
once. Common subexpressions are found by value numbering: two expressions are one where operations, operands and indices
are the same up to the loop's variable. Sums are not touched, and no bit of a result changes.

Registers have more room than shared memory (256 KiB against 48 or 227 a multiprocessor), so rows stay there or, when
they are too long, are read a second time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zenith.backends.expressions import Apply, Expr, Load, Name, Position
from zenith.backends.kernel import Bind, Check, Fold, Kernel, Let, Loop, Statement, Store, Strip, TaskLoop
from zenith.backends.memory_effects import touched
from zenith.ir.dims import Dim, symbol

VALUES = 64  # registers of a thread for its strips: so several blocks of threads fit a multiprocessor
ITERATIONS = 8  # of a thread over a row at most, all unrolled by the compiler
THREADS = 256  # of a team at most, so that each thread may have the registers
Inner = Let | Store | Check | Bind
RowLoop = Loop | Fold


@dataclass(frozen=True, slots=True)
class RegisterRows:
    """A kernel with register-resident rows of length ``extent``; ``strips`` is the most that are live at a time."""

    kernel: Kernel
    extent: Dim
    strips: int

    def iterations(self, width: int) -> int:
        """A thread's iterations over a row, ``width`` elements each, at most; fewer than 1 where that is too many."""
        most = min(ITERATIONS, VALUES // (2 * width), VALUES // (self.strips * width))
        length = self.extent.static
        return most if length is None or most < 1 else -(-length // (width * row_team(length, width, most)))


def row_team(length: int, width: int, iterations: int) -> int:
    """The threads, a warp or more, whose registers together hold a row of this length."""
    team = 32
    while team * width * iterations < length:
        team *= 2
    return team


@dataclass
class _Saved:
    """A value that several loops share: its strip, its name, and the numbers of the first and last loop that use it."""

    strip: Strip
    first: int
    name: str
    last: int = -1


@dataclass
class _Values:
    """Value numbering: equal values have equal numbers; a load from a ``changing`` buffer equals nothing."""

    changing: set[str]
    known: dict[Hashable, str] = field(default_factory=dict)

    def number(self, key: Hashable) -> str:
        """The number of a value, as a name that no kernel has."""
        return self.known.setdefault(key, f"value{len(self.known)}_resident")


def register_rows(kernel: Kernel) -> RegisterRows | None:
    """The kernel with what its loops have in common saved in registers; None where they share nothing."""
    tasks = [s for s in kernel.body if isinstance(s, TaskLoop)]
    if len(tasks) != 1 or tasks[0].lanes or not all(isinstance(s, Let | Bind | TaskLoop) for s in kernel.body):
        return None
    (task,) = tasks
    loops = [s for s in task.body if isinstance(s, Loop | Fold) and _is_over_row(s)]
    loops = [s for s in loops if s.stop == loops[0].stop]
    if len(loops) < 2:
        return None
    common = _CommonValues(kernel, loops)
    if not any(s.last > 1 for s in common.saved.values()):
        return None  # the loop of reads in front serves the first loop alone
    rewritten = replace(task, body=common.body(task.body))
    body = tuple(rewritten if s is task else s for s in kernel.body)
    return RegisterRows(replace(kernel, body=body), loops[0].stop, common.max_live())


def _is_over_row(s: RowLoop) -> bool:
    return s.start == 0 and (isinstance(s, Fold) or s.lanes) and len(_inner(s)) == len(s.body)


def _inner(loop: RowLoop) -> tuple[Inner, ...]:
    """The statements of a loop over a row: plain ones."""
    return tuple(s for s in loop.body if isinstance(s, Let | Store | Check | Bind))


class _CommonValues:
    """Finds common subexpressions of loops: first the reads of all, then loop by loop what an earlier one computes."""

    def __init__(self, kernel: Kernel, loops: Sequence[RowLoop]) -> None:
        self.values = _Values(touched(kernel.body)[1])
        self.saved: dict[str, _Saved] = {}
        self.available: dict[str, tuple[int, Let]] = {}  # by number of a value: the first loop that computes it
        self.loops = [self._reading(loops[0]), *loops]
        self.reused: list[dict[str, str]] = []  # of each loop: names, and the numbers of the values that they reload
        self.computed: list[set[str]] = []  # of each loop: names that it still computes
        for number, loop in enumerate(self.loops):
            self._visit(number, loop)

    def _reading(self, first: RowLoop) -> Loop:
        """A loop in front of the first, with its reads alone: so all of a thread's reads are in flight at once."""
        bound = {s.name for s in _inner(first) if not isinstance(s, Store)}
        reads = [s for s in first.body if isinstance(s, Let) and isinstance(s.value, Load)]
        return Loop(first.index, first.start, first.stop, True, tuple(
            s for s in reads if isinstance(s.value, Load) and not s.value.at.symbols() & bound))  # fmt: skip

    def _visit(self, number: int, loop: RowLoop) -> None:
        numbers, defined = self._numbered(loop), {s.name: s for s in _inner(loop) if not isinstance(s, Store)}
        reads = _reading_names(loop)
        stack, computed, reused = [*_roots(loop)], set[str](), dict[str, str]()
        if number == 0:
            stack = [*defined]
        while stack:
            name = stack.pop()
            if name in computed or name in reused or name not in defined:
                continue
            found = numbers.get(name)
            if name in reads and found in self.available:
                reused[name] = found
                self._save(found, number)
                continue
            computed.add(name)
            stack += _mentioned(defined[name])
        for s in loop.body:
            if isinstance(s, Let) and s.name in computed:
                self.available.setdefault(numbers[s.name], (number, s))
        self.reused.append(reused)
        self.computed.append(computed)

    def _save(self, found: str, number: int) -> None:
        first, let = self.available[found]
        if found not in self.saved:
            strip = Strip(f"{let.name}_resident", let.value.dtype, self.loops[0].stop)
            self.saved[found] = _Saved(strip, first, let.name)
        self.saved[found].last = number

    def _numbered(self, loop: RowLoop) -> dict[str, str]:
        """The number of the value of each name that a loop binds, by value numbering."""
        indices: dict[str, Dim] = {loop.index: symbol("iteration_resident")}
        numbers: dict[str, str] = {}
        for s in loop.body:
            match s:
                case Bind(name, at):
                    indices[name] = at.substitute(indices)
                case Let(name, value) | Check(name, value):
                    key = (
                        type(s),
                        self._key(value, numbers, indices),
                        (s.size, s.why) if isinstance(s, Check) else None,
                    )
                    numbers[name] = self.values.number((name, id(loop)) if key[1] is None else key)
                    indices[name] = symbol(numbers[name])
        return numbers

    def _key(self, value: Expr, numbers: Mapping[str, str], indices: Mapping[str, Dim]) -> Hashable:
        """An expression as a key, equal for equal values; None where it reads what the kernel writes."""
        match value:
            case Name(name):
                return ("name", numbers.get(name, name))
            case Load(buffer, at):
                return None if buffer in self.values.changing else ("load", buffer, at.substitute(indices))
            case Position(at, dtype):
                return ("position", at.substitute(indices), dtype)
            case Apply(text, args, dtype):
                keys = tuple(self._key(a, numbers, indices) for a in args)
                return None if None in keys else (text, keys, dtype)
        return value

    def body(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """The statements of a task with strips in front, and its loops rewritten."""
        loops = {id(loop): self._rewritten(number, loop) for number, loop in enumerate(self.loops)}
        reading = loops[id(self.loops[0])]
        in_order = sorted(self.saved.values(), key=lambda s: (s.first, s.name))  # that of sets differs by process
        found: list[Statement] = [s.strip for s in in_order]
        for s in statements:
            if s is self.loops[1]:
                found.append(reading)
            found.append(loops.get(id(s), s))
        return tuple(found)

    def _rewritten(self, number: int, loop: RowLoop) -> RowLoop:
        reused, computed, here = self.reused[number], self.computed[number], symbol(loop.index)
        stored = {s.name: s.strip for s in self.saved.values() if s.first == number}
        found: list[Statement] = []
        for s in _inner(loop):
            if isinstance(s, Store):
                found.append(s)
            elif s.name in reused:
                strip = self.saved[reused[s.name]].strip
                found.append(Let(s.name, Load(strip.name, here, strip.dtype)))
            elif s.name in computed:
                found.append(s)
                if s.name in stored:
                    found.append(Store(stored[s.name].name, here, Name(s.name, stored[s.name].dtype)))
        return replace(loop, body=tuple(found))

    def max_live(self) -> int:
        """The most strips that are live between two loops."""
        return max(sum(s.first <= n < s.last for s in self.saved.values()) for n in range(len(self.loops)))


def _roots(loop: RowLoop) -> set[str]:
    """The names that a loop's stores and results mention, and those of its checks that are never read."""
    found = set[str]()
    for s in loop.body:
        if isinstance(s, Store):
            found |= _names(s.value) | s.at.symbols()
        elif isinstance(s, Check) and s.why:
            found.add(s.name)
    for a in loop.accumulators if isinstance(loop, Fold) else ():
        found |= _names(a.value)
    return found


def _mentioned(s: Statement) -> set[str]:
    match s:
        case Let(_, value) | Check(_, value):
            return _names(value)
        case Bind(_, at):
            return {*at.symbols()}
    return set()


def _names(value: Expr) -> set[str]:
    """The names in an expression, those in its indices too."""
    match value:
        case Name(name):
            return {name}
        case Load(_, at) | Position(at):
            return {*at.symbols()}
        case Apply(_, args):
            return {n for a in args for n in _names(a)}
    return set()


def _reading_names(loop: RowLoop) -> set[str]:
    """The names of values that depend on memory: the others cost no more to compute a second time than to save."""
    found = set[str]()
    for s in loop.body:
        if isinstance(s, Let) and (_reads(s.value) or _names(s.value) & found):
            found.add(s.name)
    return found


def _reads(value: Expr) -> bool:
    return isinstance(value, Load) or (isinstance(value, Apply) and any(map(_reads, value.args)))
