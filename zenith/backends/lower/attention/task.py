"""What all engines of attention share: a task is a block of queries of one head, with memory of its own.

A task updates, for each of its queries, the running maximum of the scores, the sum of the weights, and the sums of the
weighted values; at the end these are divided by the sum of the weights. The subclasses differ in the steps:
:mod:`zenith.backends.lower.attention.cpu` for a core with vectors, :mod:`zenith.backends.lower.attention.gpu` for a
team of threads.
"""

from __future__ import annotations

import math
from abc import abstractmethod

from zenith.backends.expressions import Apply, Expr, Position
from zenith.backends.kernel import Kernel
from zenith.backends.lower.attention.task_writer import TaskWriter, Workspace
from zenith.backends.lower.nest import bind, store_results, tile_result, tile_result_of
from zenith.backends.lower.operand import access
from zenith.backends.tiles import Operand, SoftmaxTile
from zenith.ir.dims import Dim, dim, minimum
from zenith.ir.graph import Graph
from zenith.ir.types import bool_


class AttentionTask(TaskWriter):
    """Writes the statements of a task of at most ``width`` queries; subclasses write the steps in between.

    ``top``, ``total`` and ``shrink`` are the state of the online softmax: maxima, sums, and factors of earlier sums.
    """

    top: Workspace
    total: Workspace
    shrink: Workspace

    def __init__(self, body: Graph, width: int) -> None:
        query, key, value, *self.mask = body.args(tile_result(body).node)
        (*batch, self.s, self.d), self.t, self.columns = query.shape, key.shape[-2], value.shape[-1]
        super().__init__(body, batch, self.s, width)
        self.stores_logsumexp = any(tile_result_of(body, v) == 1 for v in body.outputs)
        self.q, self.k, self.v = (access(self.face, x, self.index) for x in (query, key, value))
        self.keys = bind(self.e, "keys", self.seen(self.count))

    # --- the kernel ---

    @abstractmethod
    def write(self) -> None:
        """Write the statements of a task."""

    def lower(self) -> Kernel:
        """The kernel."""
        self.write()
        cost = minimum(self.s, self.width) * self.t * ((self.d + self.columns) // 4 + 20)
        return self.close_tasks(cost)

    def seen(self, row: Dim) -> Dim:
        """How many keys the queries before ``row`` of the block see at most."""
        return minimum(self.t, self.first + row) if self.params["causal"] else self.t

    # --- shared steps ---

    def start_state(self, padding: int = 0) -> tuple[Workspace, Workspace, Workspace]:
        """Start the online softmax: a maximum of -inf and a sum of 0."""
        top, total, shrink = (self.workspace(name, self.width + padding) for name in ("top", "total", "shrink"))
        with self.loop("r", 0, self.width, lanes=True) as r:
            self.store(top, r, self.number(-float("inf")))
            self.store(total, r, self.number(0.0))
        return top, total, shrink

    @property
    def late_scale(self) -> bool:
        """Whether the scale can be left to the step of the softmax: no mask is added to scaled scores."""
        return not self.mask and self.params["scale"] > 0

    def masked(self, score: Expr, row: Dim, key: Dim) -> Expr:
        """A product as a score: scaled, with the mask applied."""
        score = self.apply("x * y", score, self.number(self.params["scale"]))
        if not self.mask:
            return score
        mask = self.e.element(self.mask[0], (*self.index, self.first + row, key))
        if self.params["mask"] == "add":
            return self.apply("x + y", score, mask)
        return self.apply("where(x, y, z)", mask, score, self.number(-float("inf")))

    def softmax(self, scores: Workspace, stride: int, lanes: int, first: Dim, many: Dim) -> None:
        """Scores become weights, for the ``lanes`` queries from ``first`` on; running maximum and sum follow."""
        operand = Operand(scores.buffer, scores.at + first, (dim(stride), dim(1)))
        state = (self.top.buffer, self.total.buffer, self.shrink.buffer)
        scale = self.number(float(self.params["scale"]) if self.late_scale else 1.0)
        self.e.append(SoftmaxTile(lanes, operand, many, scale, state, first))

    def share(self, r: Dim) -> tuple[Expr, Expr]:
        """The factor of a query's sums for its averages, and whether all keys were masked: then averages are zero."""
        total = self.load(self.total, r)
        zero, no_keys = self.number(0.0), Position(-minimum(self.t, 1))
        nothing = zero if self.params["empty"] == 0.0 else Apply("x", (no_keys,), self.dtype)
        unseen = self.put(Apply("x <= y", (total, nothing), bool_))  # -1 of t keys: 0 / 0 is the answer, nan
        return self.apply("divide(x, y)", self.number(1.0), total), unseen

    def scale_tops(self) -> None:
        """Scale the maxima, where the scale was left to the step of the softmax."""
        if self.stores_logsumexp and self.late_scale:
            scale = self.number(self.params["scale"])
            with self.loop("r", 0, self.count, lanes=True) as r:
                self.store(self.top, r, self.apply("x * y", self.load(self.top, r), scale))

    def store_logsumexp(self, r: Dim, unseen: Expr) -> None:
        """Write the log-sum-exp of a query's scores, if it is a result; 0 or nan without a key."""
        if not self.stores_logsumexp:
            return
        top, total, zero = self.load(self.top, r), self.load(self.total, r), self.number(0.0)
        found = self.apply("x + log(y)", top, total)
        if self.params["empty"] != 0.0:
            nothing = self.put(Apply("x <= y", (total, zero), bool_))
            found = self.apply("where(x, y, z)", nothing, self.number(math.nan), found)
        self.e.known[self.result.node, 1] = self.apply("where(x, y, z)", unseen, zero, found)
        store_results(self.e, self.face, (*self.index, self.first + r), 1)

    def store_average(self, r: Dim, c: Dim, total: Expr, share: tuple[Expr, Expr]) -> None:
        """Write one element of the result: a sum of weighted values times the query's factor."""
        factor, unseen = share
        average = self.apply("where(x, y, z)", unseen, self.number(0.0), self.apply("x * y", total, factor))
        self.e.known[self.result.node, 0] = average
        store_results(self.e, self.face, (*self.index, self.first + r, c))
