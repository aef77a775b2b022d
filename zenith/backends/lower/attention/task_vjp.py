"""What all forms of the way back through attention have in common: a task is a block of queries, or of keys, of a head.

Two kernels share the work, so that every sum belongs to one task, and results repeat bit for bit (Dao,
"FlashAttention-2", 2023, has atomic additions in place of the first). Tasks of the one are blocks of queries, which
walk along the keys and sum up the queries' cotangents; tasks of the other are blocks of keys, which walk along the
queries and sum up those of keys and values. Either makes the weights again, a block at a time, from the logarithms of
the way forward.

A task's own rows are lanes: it keeps ``[other][own]`` products of a block of other rows, which become weights ``w``
and changes ``c`` of scores. With ``x`` for queries and ``y`` for cotangents where queries are the own rows, keys and
values where keys are, and primes for those of the other rows, it computes ``w`` from ``x' x``, ``c`` from ``w`` and
``y' y``, and the sums ``c x'`` and (of keys only) ``w y'``. How products are made is the forms' business:
:mod:`zenith.backends.lower.attention.cpu_vjp` for a core with vectors, :mod:`zenith.backends.lower.attention.gpu_vjp`
for a team of threads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from zenith.backends.kernel import Apply, Expr, Kernel, Name, Position
from zenith.backends.lower.attention.task_writer import Room, TaskWriter
from zenith.backends.lower.nest import bind, store_results, tile_result_of
from zenith.backends.lower.operand import Access, access
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, minimum, product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import bool_

QUERIES, KEYS = (0,), (1, 2)  # the results of the primitive that the tasks of either kernel sum up


class Visit(Protocol):
    """What is done for a score."""

    def __call__(self, at: Dim, other: Dim, own: Dim, inside: Expr | None = None) -> None: ...


def wanted(body: Graph) -> list[tuple[int, ...]]:
    """The results that each kernel is to compute, for the kernels that have any; empty arrays need none."""
    asked = {tile_result_of(body, value) for value in body.outputs if product(value.shape) != 0}
    return [found for results in (QUERIES, KEYS) if (found := tuple(r for r in results if r in asked))]


class AttentionVjpTask(TaskWriter):
    """Writes a task of ``width`` own rows, which are queries or keys as the ``results`` have it."""

    weights: Room
    changes: Room

    def __init__(self, body: Graph, width: int, block: int, results: tuple[int, ...]) -> None:
        super().__init__(body)
        self.width, self.block, self.results = width, block, results
        self.of_queries = results == QUERIES
        q, k, v, ct, self.logarithm, self.mean, *self.mask = body.args(self.result.node)
        self.batch, (s, self.d), (t, self.columns) = q.shape[:-2], q.shape[-2:], v.shape[-2:]
        sides = [((q, ct), s), ((k, v), t)]
        (self.own_values, self.own), (self.other_values, self.others) = sides if self.of_queries else sides[::-1]

    def room(self, stem: str, length: Dim | int) -> Room:
        """Memory for a task, under a name that the other kernel has not."""
        return super().room(f"{'q' if self.of_queries else 'k'}_{stem}", length)

    # --- what a form does ---

    @abstractmethod
    def prepare(self) -> None:
        """Write what comes before the other rows: memory for ``weights`` and ``changes``, own rows as it needs them."""

    def begin_turn(self, part: Dim) -> None:
        """Write what comes before the products of a block of other rows, if anything."""

    @abstractmethod
    def multiply(self, room: Room, number: int, start: Dim, many: Dim) -> None:
        """Write products ``[other][own]``, of operand ``number`` (0: x, 1: y) of ``many`` other rows, into a room."""

    @abstractmethod
    def each_score(self, many: Dim, visit: Visit) -> None:
        """Visit every score by its position, other row and own row, both counted from the first of their block.

        Where places of a block have no other row, they repeat the last one, and a condition says which ones have.
        """

    @abstractmethod
    def collect(self, number: int, part: Dim, start: Dim, many: Dim) -> None:
        """Add ``many`` other rows of operand ``number``, with changes (0) or weights (1) as factors, to the sums."""

    @abstractmethod
    def each_sum(self, number: int, visit: Callable[[Dim, Dim, Name], None]) -> None:
        """Visit every sum by its own row and column; without other rows, they are zero."""

    # --- the kernel ---

    @property
    def sums_of(self) -> dict[int, int]:
        """For each result the operand of the other rows that it is a sum of."""
        return {result: int(result == 2) for result in self.results}

    def columns_of(self, number: int) -> Dim:
        """The columns of operand ``number`` of either side."""
        return self.columns if number else self.d

    def lower(self) -> Kernel:
        """The kernel of these results."""
        self.first, self.count = self.open_tasks(self.batch, self.own, self.width)
        self.x_own = [access(self.face, x, self.index) for x in self.own_values]
        self.x_other = [access(self.face, x, self.index) for x in self.other_values]
        self.from_other, self.rows = self._seen()
        self.prepare()
        with self.loop("part", 0, quotient_up(self.rows, self.block)) as part:
            begin = bind(self.e, "begin", part * self.block)
            start = bind(self.e, "start", self.from_other + begin)
            many = bind(self.e, "many", minimum(self.rows - begin, self.block))
            self.begin_turn(part)
            self.multiply(self.weights, 0, start, many)
            if self.needs_changes:
                self.multiply(self.changes, 1, start, many)
            self.each_score(many, partial(self._weigh, start))
            for number in self.sums_of.values():
                self.collect(number, part, start, many)
        for result, number in self.sums_of.items():
            self.each_sum(number, partial(self._store, result))
        cost = minimum(self.own, self.width) * self.others * ((self.d + self.columns) // 2 + 20)
        return replace(self.close_tasks(cost), operations=self._operations())

    def _operations(self) -> Dim:
        """What is counted for these tasks: products that both kernels make count for the first of them."""
        first, *later = wanted(self.body)
        scores = product((*self.batch, self.own, self.others))
        sums = sum((2 * scores * self.columns_of(int(r == 2)) for results in later for r in results), dim(0))
        everything = operations_of(self.body, (number for number, _ in self.body.nodes()))
        return everything - sums if self.results == first else sums

    @property
    def needs_changes(self) -> bool:
        """Whether more is asked for than the cotangent of the values."""
        return 0 in self.sums_of.values()

    def _seen(self) -> tuple[Dim, Dim]:
        """The first other row, and how many there are, that the own ones have to do with."""
        if not self.params["causal"]:
            return dim(0), self.others
        if self.of_queries:
            return dim(0), bind(self.e, "rows", minimum(self.others, self.first + self.count))
        start = bind(self.e, "from_other", minimum(self.first, self.others))
        return start, bind(self.e, "rows", self.others - start)

    def _weigh(self, start: Dim, at: Dim, other: Dim, own: Dim, inside: Expr | None = None) -> None:
        """Products become a weight and the change of a score; lanes without a row repeat the last one."""
        row, other = self.first + minimum(own, self.count - 1), start + other
        query, key = (row, other) if self.of_queries else (other, row)
        score = self._score(at, query, key)
        weight = self.apply("exp(x - y)", score, self._of_query(self.logarithm, query))
        if inside is not None:
            weight = self.apply("where(x, y, z)", inside, weight, self.number(0.0))
        self.store(self.weights, at, weight)
        if self.needs_changes:
            slope = self.apply("x - y", self.load(self.changes, at), self._of_query(self.mean, query))
            self.store(self.changes, at, self.apply("x * y", weight, slope))

    def _score(self, at: Dim, query: Dim, key: Dim) -> Expr:
        score: Expr = self.apply("x * y", self.load(self.weights, at), self.number(self.params["scale"]))
        nothing = self.number(-float("inf"))
        if self.params["mask"] == "add":
            score = self.apply("x + y", score, self.e.element(self.mask[0], (*self.index, query, key)))
        if self.params["mask"] == "bool":
            seen = self.e.element(self.mask[0], (*self.index, query, key))
            score = self.apply("where(x, y, z)", seen, score, nothing)
        if self.params["causal"]:
            seen = self.put(Apply("x >= y", (Position(query), Position(key)), bool_))
            score = self.apply("where(x, y, z)", seen, score, nothing)
        return score

    def _of_query(self, value: Value, query: Dim) -> Expr:
        """A number that each query has one of."""
        return self.e.element(value, (*self.index, query))

    def _store(self, result: int, own: Dim, column: Dim, total: Expr) -> None:
        if result != 2:
            total = self.apply("x * y", total, self.number(self.params["scale"]))
        self.e.known[self.result.node, result] = total
        store_results(self.e, self.face, (*self.index, self.first + own, column), result)

    def rows_of(self, operand: Access, start: Dim) -> Dim:
        """The position of a row of an operand."""
        return operand.at + start * operand.strides[0]
