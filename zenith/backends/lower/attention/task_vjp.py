"""What all engines of attention's backward pass share: a task is a block of queries, or of keys, of a head.

Two kernels share the work, so that every sum belongs to one task, and results repeat bit for bit (Dao,
"FlashAttention-2", 2023, has atomic additions in place of the first). Tasks of the one are blocks of queries, which
walk along the keys and sum up the queries' cotangents; tasks of the other are blocks of keys, which walk along the
queries and sum up those of keys and values. Either recomputes the weights, a block at a time, from the log-sum-exp of
the forward pass.

A task's own rows are lanes: it has ``[other][own]`` products of a block of other rows, which become weights ``w`` and
cotangents ``c`` of scores (``dscores``). With ``x`` for queries and ``y`` for cotangents where queries are the own
rows, keys and values where keys are, and primes for those of the other rows, it computes ``w`` from ``x' x``, ``c``
from ``w`` and ``y' y``, and the sums ``c x'`` and (of keys only) ``w y'``. Subclasses differ in how they compute the
products: :mod:`zenith.backends.lower.attention.cpu_vjp` for a core with vectors,
:mod:`zenith.backends.lower.attention.gpu_vjp` for a team of threads.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from zenith.backends.expressions import Apply, Expr, Name, Position
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.task_writer import TaskWriter, Workspace
from zenith.backends.lower.nest import bind, store_results, tile_result, tile_result_of
from zenith.backends.lower.operand import OperandAccess, access
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, minimum, product
from zenith.ir.graph import Graph, Value
from zenith.ir.types import DType, bool_

QUERIES, KEYS = (0,), (1, 2)  # the results of the primitive that the tasks of either kernel sum up


class Visit(Protocol):
    """Called for each score; ``inside``, if given, is the condition that the other row exists."""

    def __call__(self, at: Dim, other: Dim, own: Dim, inside: Expr | None = None) -> None: ...


def wanted(body: Graph) -> list[tuple[int, ...]]:
    """The results that each kernel is to compute, for the kernels that have any; empty arrays need none."""
    asked = {tile_result_of(body, value) for value in body.outputs if product(value.shape) != 0}
    return [found for results in (QUERIES, KEYS) if (found := tuple(r for r in results if r in asked))]


class AttentionVjpTask(TaskWriter):
    """Writes a task of ``width`` own rows: queries if ``results`` are their cotangents, else keys.

    Subclasses have workspaces for a block's weights and cotangents of scores.
    """

    weights: Workspace
    dscores: Workspace

    def __init__(self, body: Graph, width: int, block: int, results: tuple[int, ...]) -> None:
        q, k, v, ct, self.logsumexp, self.delta, *self.mask = body.args(tile_result(body).node)
        (*self.batch, s, self.d), (t, self.columns) = q.shape, v.shape[-2:]
        self.block, self.results, self.of_queries = block, results, results == QUERIES
        sides = [((q, ct), s), ((k, v), t)]
        (own_values, self.own), (other_values, self.others) = sides if self.of_queries else sides[::-1]
        super().__init__(body, self.batch, self.own, width)
        self.x_own = [access(self.face, x, self.index) for x in own_values]
        self.x_other = [access(self.face, x, self.index) for x in other_values]
        self.from_other, self.rows = self._seen()

    def workspace(self, stem: str, length: Dim | int, dtype: DType | None = None) -> Workspace:
        """Memory for a task, under a name that the other kernel does not use."""
        return super().workspace(f"{'q' if self.of_queries else 'k'}_{stem}", length, dtype)

    # --- the steps of a subclass ---

    def begin_iteration(self, iteration: Dim) -> None:
        """Write what comes before the products of a block of other rows, if anything."""

    @abstractmethod
    def multiply(self, workspace: Workspace, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        """Write products ``[other][own]`` of operand ``number`` (0: x, 1: y) of ``many`` other rows, to a workspace."""

    @abstractmethod
    def each_score(self, many: Dim, visit: Visit) -> None:
        """Visit every score by its position, other row and own row, both counted from the first of their block.

        Slots of a block without another row repeat the last one, and a condition excludes them.
        """

    @abstractmethod
    def collect(self, number: int, iteration: Dim, start: Dim, many: Dim) -> None:
        """Add ``many`` other rows of operand ``number``, times ``dscores`` (0) or weights (1), to the sums."""

    @abstractmethod
    def each_sum(self, number: int, visit: Callable[[Dim, Dim, Name], None]) -> None:
        """Visit every sum by its own row and column; without other rows, they are zero."""

    # --- the kernel ---

    @property
    def sums_of(self) -> dict[int, int]:
        """For each result the number of the operand whose other rows it sums."""
        return {result: int(result == 2) for result in self.results}

    def columns_of(self, number: int) -> Dim:
        """The columns of operand ``number`` of either side."""
        return self.columns if number else self.d

    def lower(self) -> Kernel:
        """The kernel of these results."""
        with self.loop("block", 0, quotient_up(self.rows, self.block)) as iteration:
            begin = bind(self.e, "begin", iteration * self.block)
            start = bind(self.e, "start", self.from_other + begin)
            many = bind(self.e, "many", minimum(self.rows - begin, self.block))
            self.begin_iteration(iteration)
            self.multiply(self.weights, 0, iteration, start, many)
            if self.needs_dscores:
                self.multiply(self.dscores, 1, iteration, start, many)
            self.each_score(many, partial(self._weigh, start))
            for number in self.sums_of.values():
                self.collect(number, iteration, start, many)
        for result, number in self.sums_of.items():
            self.each_sum(number, partial(self._store, result))
        cost = minimum(self.own, self.width) * self.others * ((self.d + self.columns) // 2 + 20)
        return replace(self.close_tasks(cost), operations=self._operations())

    def _operations(self) -> Dim:
        """The operations of these tasks: products that both kernels compute count for the first of them."""
        first, *later = wanted(self.body)
        scores = product((*self.batch, self.own, self.others))
        sums = sum((2 * scores * self.columns_of(int(r == 2)) for results in later for r in results), dim(0))
        everything = operations_of(self.body, (number for number, _ in self.body.nodes()))
        return everything - sums if self.results == first else sums

    @property
    def needs_dscores(self) -> bool:
        """Whether other results than the cotangent of the values are wanted."""
        return 0 in self.sums_of.values()

    def _seen(self) -> tuple[Dim, Dim]:
        """The first other row that the own ones see or are seen by, and the number of these."""
        if not self.params["causal"]:
            return dim(0), self.others
        if self.of_queries:
            return dim(0), bind(self.e, "rows", minimum(self.others, self.first + self.count))
        start = bind(self.e, "from_other", minimum(self.first, self.others))
        return start, bind(self.e, "rows", self.others - start)

    def _weigh(self, start: Dim, at: Dim, other: Dim, own: Dim, inside: Expr | None = None) -> None:
        """Products become a weight and the cotangent of a score; lanes without a row repeat the last one."""
        row, other = self.first + minimum(own, self.count - 1), start + other
        query, key = (row, other) if self.of_queries else (other, row)
        score = self._score(at, query, key)
        weight = self.apply("exp(x - y)", score, self._of_query(self.logsumexp, query))
        if inside is not None:
            weight = self.apply("where(x, y, z)", inside, weight, self.number(0.0))
        self.store(self.weights, at, weight)
        if self.needs_dscores:
            slope = self.apply("x - y", self.load(self.dscores, at), self._of_query(self.delta, query))
            self.store(self.dscores, at, self.apply("x * y", weight, slope))

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
        """The element of a query in an array of one number per query."""
        return self.e.element(value, (*self.index, query))

    def _store(self, result: int, own: Dim, column: Dim, total: Expr) -> None:
        if result != 2:
            total = self.apply("x * y", total, self.number(self.params["scale"]))
        self.e.known[self.result.node, result] = total
        store_results(self.e, self.face, (*self.index, self.first + own, column), result)

    def rows_of(self, operand: OperandAccess, start: Dim) -> Dim:
        """The position of a row of an operand."""
        return operand.at + start * operand.strides[0]
