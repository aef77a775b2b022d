"""Versions of a kernel's memory: a proof that every load reads the value that it needs.

A kernel may store several values in one piece of memory, one after another: rows that one loop computes and later loops
read. Each store of such a value names it, its *version*, and each load the version that it needs, as definitions and
uses in MemorySSA (D. Novillo, *Memory SSA: a unified approach for sparsely representing memory operations*, GCC
Developers' Summit 2007). The verifier walks a kernel in program order and knows for every buffer what it contains:

- A loop that stores a version, once an iteration, leaves that version where its iterations have stored.
- Inside the loop, an element is the one from before the loop until the iteration of that element stores. So a load at
  the very index of the store is decided by the order of the two, and at any other index it is refused.
- Tasks begin with memory that contains nothing, since other tasks have used it. Cases of a branch have to agree.

It runs on every kernel that has versions, ahead of code generation, in linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from zenith.backends.expressions import Apply, Expr, Load
from zenith.backends.kernel import (
    Assign,
    AtomicAdd,
    Bind,
    Branch,
    Check,
    Fold,
    Kernel,
    Let,
    Loop,
    Running,
    Search,
    Statement,
    Store,
    TaskLoop,
    inner,
    walk,
)
from zenith.errors import CompileError
from zenith.ir.dims import Dim, dim, symbol

ITERATION = symbol("iteration")  # a loop's index, where indices of several loops are compared


@dataclass(frozen=True, slots=True)
class Content:
    """A version, and where it is stored: at ``at`` for every iteration within ``limits``."""

    version: int | None
    at: Dim
    limits: tuple[Dim, Dim]


@dataclass(frozen=True, slots=True)
class Iteration:
    """An iteration of the innermost loop: all ``stores`` in it by buffer, and the buffers of those that have run."""

    loop: Loop | Fold | None = None
    stores: dict[str, list[Store]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, loop: Loop | Fold) -> Iteration:
        """One iteration, before its first statement."""
        stores: dict[str, list[Store]] = {}
        for statement in walk(loop.body):
            if isinstance(statement, Store):
                stores.setdefault(statement.buffer, []).append(statement)
        return cls(loop, stores)

    @property
    def limits(self) -> tuple[Dim, Dim]:
        """The first index, and the one after the last."""
        return (self.loop.start, self.loop.stop) if self.loop else (dim(0), dim(1))

    def single(self, buffer: str) -> Store | None:
        """The store to a buffer, where it is the only one and runs once an iteration."""
        stores = self.stores.get(buffer, [])
        return stores[0] if len(stores) == 1 and self.loop and stores[0] in self.loop.body else None


def verify(kernel: Kernel) -> None:
    """Raise CompileError where a load may find another value than the one that it names."""
    if any(load.version is not None for statement in walk(kernel.body) for load in _loads(statement)):
        _Verifier(kernel).block(kernel.body, Iteration())


class _Verifier:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.contents: dict[str, Content] = {}
        self.bound: dict[str, Dim] = {}  # the index expressions that names are bound to

    def block(self, statements: Iterable[Statement], iteration: Iteration) -> None:
        """Statements one after another."""
        for statement in statements:
            if isinstance(statement, Loop | Fold):
                self._loop(statement)
                continue
            self._check(statement, iteration)
            if isinstance(statement, Bind):
                self.bound[statement.name] = statement.at.substitute(self.bound)
            elif isinstance(statement, Store):
                iteration.done.add(statement.buffer)
            elif isinstance(statement, Branch):
                self._branch(statement, iteration)
            else:
                if isinstance(statement, TaskLoop):
                    self.contents.clear()
                self.block(inner(statement), iteration)

    def _loop(self, loop: Loop | Fold) -> None:
        """All iterations, by a symbolic one, and the contents after the last."""
        iteration = Iteration.of(loop)
        stored = {buffer: iteration.single(buffer) for buffer in iteration.stores}
        for buffer in [b for b, store in stored.items() if store is None]:
            self.contents.pop(buffer, None)  # an earlier iteration may have stored anywhere
        self.block(loop.body, iteration)
        self._check(loop, iteration)  # accumulators are joined at the end of an iteration
        for buffer, store in stored.items():
            self.contents.pop(buffer, None)
            if store is not None:
                self.contents[buffer] = Content(store.version, self._index(store.at, iteration), iteration.limits)

    def _branch(self, branch: Branch, iteration: Iteration) -> None:
        """Each case by itself; the contents after the branch are those on which all cases agree."""
        before, ends = dict(self.contents), list[dict[str, Content]]()
        for case in branch.cases:
            self.contents = dict(before)
            self.block(case, iteration)
            ends.append(self.contents)
        self.contents = {b: c for b, c in ends[0].items() if all(end.get(b) == c for end in ends)}

    def _check(self, statement: Statement, iteration: Iteration) -> None:
        for load in _loads(statement):
            if load.version is not None and not self._finds(load, iteration):
                raise CompileError(
                    f"kernel {self.kernel.name} ({self.kernel.doc}) reads {load.buffer}[{load.at}] for value "
                    f"{load.version}, and another one may be stored there",
                    fix="this is a defect of Zenith: please report it, with the program that was compiled",
                )

    def _finds(self, load: Load, iteration: Iteration) -> bool:
        """Whether the version that a load needs is there."""
        index = self._index(load.at, iteration)
        if load.buffer in iteration.stores:
            store = iteration.single(load.buffer)
            if store is None or self._index(store.at, iteration) != index:
                return False
            if load.buffer in iteration.done:
                return store.version == load.version
        return self.contents.get(load.buffer) == Content(load.version, index, iteration.limits)

    def _index(self, at: Dim, iteration: Iteration) -> Dim:
        """An index in terms of the iteration, with names replaced by the expressions that they are bound to."""
        at = at.substitute(self.bound)
        return at.substitute({iteration.loop.index: ITERATION}) if iteration.loop else at


def _loads(statement: Statement) -> Iterator[Load]:
    """The loads of a statement itself, without those of statements inside of it."""
    match statement:
        case Let(_, value) | Assign(_, value) | Check(_, value) | Store(_, _, value) | AtomicAdd(_, _, value):
            yield from _in(value)
        case Fold(accumulators=accumulators):
            for accumulator in accumulators:
                yield from _in(accumulator.value)
        case Running() | Search():
            for value in statement.values:
                yield from _in(value)


def _in(expr: Expr) -> Iterator[Load]:
    if isinstance(expr, Load):
        yield expr
    elif isinstance(expr, Apply):
        for argument in expr.args:
            yield from _in(argument)
