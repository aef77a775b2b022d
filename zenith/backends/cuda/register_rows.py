"""Rows held in registers: what the loops over a row have in common is read, or computed, once.

A row kernel goes through its row several times: for the maximum, for the sum, for the results. In each of these loops a
thread has the same elements. So what a later loop would read or compute again each thread keeps in a strip of its own,
which the compiler holds in registers when the number of its turns is a constant. Memory is read once. Equal values are
found by numbering them: two expressions are one where operations, operands and places are the same up to the loop's
variable. Sums are not touched, and no bit of a result changes.

Registers hold more than shared memory does (256 KiB against 48 or 227 a multiprocessor), so rows are kept there or,
when they are too long, read again.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from zenith.backends.kernel import (
    Apply,
    Bind,
    Check,
    Expr,
    Fold,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Position,
    Statement,
    Store,
    Strip,
    TaskLoop,
)
from zenith.backends.memory_effects import touched
from zenith.ir.dims import Dim, symbol

VALUES = 64  # registers of a thread for what it keeps: so several blocks of threads fit a multiprocessor
TURNS = 8  # of a thread at most, all written out by the compiler
THREADS = 256  # of a team at most, so that each thread may have the registers
Inner = Let | Store | Check | Bind
RowLoop = Loop | Fold


@dataclass(frozen=True, slots=True)
class RegisterRows:
    """A kernel that keeps its rows; ``extent`` is their length, ``strips`` the most that are needed at a time."""

    kernel: Kernel
    extent: Dim
    strips: int

    def turns(self, width: int) -> int:
        """How often a thread takes ``width`` elements of a row, at most; fewer than 1 where that is too many."""
        most = min(TURNS, VALUES // (2 * width), VALUES // (self.strips * width))
        length = self.extent.static
        return most if length is None or most < 1 else -(-length // (width * holding(length, width, most)))


def holding(length: int, width: int, turns: int) -> int:
    """The threads that together have a row of this length: a warp or more."""
    team = 32
    while team * width * turns < length:
        team *= 2
    return team


@dataclass
class _Kept:
    """A value that stays: its strip, and by number the loops that make it and that take it last."""

    strip: Strip
    made: int
    name: str
    last: int = -1


@dataclass
class _Values:
    """The numbers of values, equal for equal ones; what is read of buffers that are ``changing`` equals nothing."""

    changing: set[str]
    known: dict[Hashable, str] = field(default_factory=dict)

    def number(self, key: Hashable) -> str:
        """The number of a value, as a name that no kernel has."""
        return self.known.setdefault(key, f"value{len(self.known)}_held")


def register_rows(kernel: Kernel) -> RegisterRows | None:
    """The kernel with what its loops have in common kept; None where there is no such thing."""
    tasks = [s for s in kernel.body if isinstance(s, TaskLoop)]
    if len(tasks) != 1 or tasks[0].lanes or not all(isinstance(s, Let | Bind | TaskLoop) for s in kernel.body):
        return None
    (task,) = tasks
    loops = [s for s in task.body if isinstance(s, Loop | Fold) and _is_over_row(s)]
    loops = [s for s in loops if s.stop == loops[0].stop]
    if len(loops) < 2:
        return None
    keeping = _Keeping(kernel, loops)
    if not any(k.last > 1 for k in keeping.kept.values()):
        return None  # what is read ahead of the first loop serves that one alone
    held = replace(task, body=keeping.body(task.body))
    body = tuple(held if s is task else s for s in kernel.body)
    return RegisterRows(replace(kernel, body=body), loops[0].stop, keeping.most())


def _is_over_row(s: RowLoop) -> bool:
    return s.start == 0 and (isinstance(s, Fold) or s.lanes) and len(_inner(s)) == len(s.body)


def _inner(loop: RowLoop) -> tuple[Inner, ...]:
    """The statements of a loop over a row: plain ones."""
    return tuple(s for s in loop.body if isinstance(s, Let | Store | Check | Bind))


class _Keeping:
    """Finds what loops have in common: first what each reads, then loop by loop what an earlier one has."""

    def __init__(self, kernel: Kernel, loops: Sequence[RowLoop]) -> None:
        self.values = _Values(touched(kernel.body)[1])
        self.kept: dict[str, _Kept] = {}
        self.having: dict[str, tuple[int, Let]] = {}  # by number of a value: the first loop that computes it
        self.loops = [self._reading(loops[0]), *loops]
        self.taken: list[dict[str, str]] = []  # of each loop: names and the numbers of what they take
        self.needed: list[set[str]] = []
        for number, loop in enumerate(self.loops):
            self._visit(number, loop)

    def _reading(self, first: RowLoop) -> Loop:
        """A loop ahead of the first, with its reads alone: so all of a thread's reads are under way at once."""
        bound = {s.name for s in _inner(first) if not isinstance(s, Store)}
        reads = [s for s in first.body if isinstance(s, Let) and isinstance(s.value, Load)]
        return Loop(first.index, first.start, first.stop, True, tuple(
            s for s in reads if isinstance(s.value, Load) and not s.value.at.symbols() & bound))  # fmt: skip

    def _visit(self, number: int, loop: RowLoop) -> None:
        numbers, defined = self._numbered(loop), {s.name: s for s in _inner(loop) if not isinstance(s, Store)}
        reads = _reading_names(loop)
        stack, needed, taken = [*_roots(loop)], set[str](), dict[str, str]()
        if number == 0:
            stack = [*defined]
        while stack:
            name = stack.pop()
            if name in needed or name in taken or name not in defined:
                continue
            found = numbers.get(name)
            if name in reads and found in self.having:
                taken[name] = found
                self._keep(found, number)
                continue
            needed.add(name)
            stack += _mentioned(defined[name])
        for s in loop.body:
            if isinstance(s, Let) and s.name in needed:
                self.having.setdefault(numbers[s.name], (number, s))
        self.taken.append(taken)
        self.needed.append(needed)

    def _keep(self, found: str, number: int) -> None:
        made, let = self.having[found]
        if found not in self.kept:
            strip = Strip(f"{let.name}_held", let.value.dtype, self.loops[0].stop)
            self.kept[found] = _Kept(strip, made, let.name)
        self.kept[found].last = number

    def _numbered(self, loop: RowLoop) -> dict[str, str]:
        """The number of the value of each name that a loop binds."""
        places: dict[str, Dim] = {loop.index: symbol("turn_held")}
        numbers: dict[str, str] = {}
        for s in loop.body:
            match s:
                case Bind(name, at):
                    places[name] = at.substitute(places)
                case Let(name, value) | Check(name, value):
                    key = (
                        type(s),
                        self._key(value, numbers, places),
                        (s.size, s.why) if isinstance(s, Check) else None,
                    )
                    numbers[name] = self.values.number((name, id(loop)) if key[1] is None else key)
                    places[name] = symbol(numbers[name])
        return numbers

    def _key(self, value: Expr, numbers: Mapping[str, str], places: Mapping[str, Dim]) -> Hashable:
        """An expression up to names; None where it reads what the kernel writes."""
        match value:
            case Name(name):
                return ("name", numbers.get(name, name))
            case Load(buffer, at):
                return None if buffer in self.values.changing else ("load", buffer, at.substitute(places))
            case Position(at, dtype):
                return ("position", at.substitute(places), dtype)
            case Apply(text, args, dtype):
                keys = tuple(self._key(a, numbers, places) for a in args)
                return None if None in keys else (text, keys, dtype)
        return value

    def body(self, statements: Iterable[Statement]) -> tuple[Statement, ...]:
        """The statements of a task with strips in front, and the loops as they are now."""
        loops = {id(loop): self._rewritten(number, loop) for number, loop in enumerate(self.loops)}
        reading = loops[id(self.loops[0])]
        found: list[Statement] = [k.strip for k in self.kept.values()]
        for s in statements:
            if s is self.loops[1]:
                found.append(reading)
            found.append(loops.get(id(s), s))
        return tuple(found)

    def _rewritten(self, number: int, loop: RowLoop) -> RowLoop:
        taken, needed, here = self.taken[number], self.needed[number], symbol(loop.index)
        made = {k.name: k.strip for k in self.kept.values() if k.made == number}
        found: list[Statement] = []
        for s in _inner(loop):
            if isinstance(s, Store):
                found.append(s)
            elif s.name in taken:
                strip = self.kept[taken[s.name]].strip
                found.append(Let(s.name, Load(strip.name, here, strip.dtype)))
            elif s.name in needed:
                found.append(s)
                if s.name in made:
                    found.append(Store(made[s.name].name, here, Name(s.name, made[s.name].dtype)))
        return replace(loop, body=tuple(found))

    def most(self) -> int:
        """The most strips that hold something between two loops."""
        return max(sum(k.made <= n < k.last for k in self.kept.values()) for n in range(len(self.loops)))


def _roots(loop: RowLoop) -> set[str]:
    """The names that a loop's stores and results mention, and those of its checks that nobody reads."""
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
    """The names in an expression, those in its places too."""
    match value:
        case Name(name):
            return {name}
        case Load(_, at) | Position(at):
            return {*at.symbols()}
        case Apply(_, args):
            return {n for a in args for n in _names(a)}
    return set()


def _reading_names(loop: RowLoop) -> set[str]:
    """The names of values that follow from memory: the others are as soon computed as kept."""
    found = set[str]()
    for s in loop.body:
        if isinstance(s, Let) and (_reads(s.value) or _names(s.value) & found):
            found.add(s.name)
    return found


def _reads(value: Expr) -> bool:
    return isinstance(value, Load) or (isinstance(value, Apply) and any(map(_reads, value.args)))
