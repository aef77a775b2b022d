"""What all forms of attention have in common: a task is a block of queries of one head, with memory of its own.

A task keeps, for each of its queries, the largest score so far, the sum of the weights, and the sums of the weighted
values; at the end these are divided by the sum of the weights. How it gets there is the forms' business:
:mod:`zenith.backends.lower.attention` for a core with vectors, :mod:`zenith.backends.lower.shared_attention` for a team
of threads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from zenith.backends.kernel import (
    Apply,
    Buffer,
    Expr,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Number,
    Operand,
    Position,
    Scratch,
    SoftmaxTile,
    Store,
    TaskLoop,
)
from zenith.backends.lower.cut import quotient_up
from zenith.backends.lower.nest import Interface, bind, decode_into, store_results
from zenith.backends.lower.operand import Access, access, tile_result
from zenith.ir.dims import Dim, dim, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import bool_


@dataclass(frozen=True, slots=True)
class Room:
    """A task's own memory: element i is at position ``at + i`` of ``buffer``."""

    buffer: str
    at: Dim


class AttentionTask(ABC):
    """Writes the statements of a task of at most ``width`` queries; a form says what else there is to it."""

    def __init__(self, body: Graph, width: int) -> None:
        self.body, self.face, self.width = body, Interface.of(body), width
        self.result = tile_result(body)
        self.dtype, self.params = self.result.dtype, body.node(self.result.node).params
        self.query, self.key, self.value, *self.mask = body.args(self.result.node)
        self.batch, (self.s, self.d), self.t = self.query.shape[:-2], self.query.shape[-2:], self.key.shape[-2]
        self.columns = self.value.shape[-1]
        self.e = self.face.builder()
        self.temporaries: list[Buffer] = []

    # --- writing statements ---

    def put(self, expr: Expr, stem: str = "v") -> Name:
        """Bind an expression here: what stands in a task's own memory changes, so its loads must not move."""
        name = self.e.fresh(stem)
        self.e.level_of[name] = len(self.e.levels) - 1
        self.e.append(Let(name, expr))
        return Name(name, expr.dtype)

    def apply(self, text: str, *args: Expr) -> Name:
        """Bind a scalar expression here."""
        return self.put(Apply(text, args, self.dtype))

    def load(self, room: Room, at: Dim) -> Name:
        """Bind an element of a room here."""
        return self.put(Load(room.buffer, room.at + at, self.dtype))

    def read(self, operand: Access, at: Dim) -> Name:
        """Bind an operand's element, at a position of its buffer, which may hold 16-bit floats."""
        element = self.put(Load(operand.buffer, at, operand.dtype))
        return element if operand.dtype == self.dtype else self.apply("x", element)

    def store(self, room: Room, at: Dim, value: Expr) -> None:
        """Write an element of a room."""
        self.e.append(Store(room.buffer, room.at + at, value))

    def number(self, value: float) -> Number:
        """A literal of the scores' type."""
        return Number(value, self.dtype)

    @contextmanager
    def loop(self, stem: str, start: Dim | int, stop: Dim | int, lanes: bool = False) -> Iterator[Dim]:
        """A loop around the statements that are written meanwhile."""
        index = self.e.fresh(stem)
        self.e.open(index)
        yield symbol(index)
        self.e.append(Loop(index, dim(start), dim(stop), lanes, self.e.close()))

    @abstractmethod
    def fits(self, length: int) -> bool:
        """Whether so many elements can be one more scratch buffer; else they are a part of a temporary one."""

    def room(self, stem: str, length: Dim | int) -> Room:
        """Memory for a task: a scratch buffer, or its part of a temporary buffer."""
        name, length = self.e.fresh(stem), dim(length)
        if length.static is not None and self.fits(length.static):
            self.e.levels[0].statements.append(Scratch(name, self.dtype, max(1, length.static)))
            return Room(name, dim(0))
        self.temporaries.append(Buffer(name, self.dtype, length * self.tasks, "temporary"))
        return Room(name, bind(self.e, f"{stem}_at", symbol(self.task) * length))

    # --- the kernel ---

    @abstractmethod
    def write(self) -> None:
        """Write what a task does."""

    def lower(self) -> Kernel:
        """Task t is block ``t % blocks`` of the queries of head ``t // blocks``."""
        e, blocks = self.e, quotient_up(self.s, self.width)
        self.tasks = product(self.batch) * blocks
        self.task = e.fresh("t")
        e.open(self.task)
        block = bind(e, "block", symbol(self.task) % blocks)
        head = bind(e, "head", symbol(self.task) // blocks)
        index = self.index = tuple(decode_into(e, head, list(self.batch))) if self.batch else ()
        self.first = bind(e, "first", block * self.width)
        self.count = self._block_length()
        self.q, self.k, self.v = (access(self.face, x, index) for x in (self.query, self.key, self.value))
        self.keys = bind(e, "keys", self.seen(self.count))
        self.write()
        e.append(TaskLoop(self.task, self.tasks, None, (), e.close(), False))
        cost = minimum(self.s, self.width) * self.t * ((self.d + self.columns) // 4 + 20)
        buffers = (*self.face.buffers, *self.temporaries)
        return Kernel("kernel", self.face.doc(), buffers, self.face.symbols, self.tasks, cost, e.close())

    def _block_length(self) -> Dim:
        """How many queries a task has: a number when all tasks have as many."""
        s = self.s.static
        if s is not None and (s <= self.width or s % self.width == 0):
            return dim(min(s, self.width))
        return bind(self.e, "count", minimum(self.s - self.first, self.width))

    def seen(self, row: Dim) -> Dim:
        """How many keys the queries before ``row`` of the block see at most."""
        return minimum(self.t, self.first + row) if self.params["causal"] else self.t

    # --- steps of all forms ---

    def start_state(self, padding: int = 0) -> None:
        """Before any key: nothing was the largest score, and no weight was summed."""
        rooms = [self.room(name, self.width + padding) for name in ("top", "total", "shrink")]
        self.top, self.total, self.shrink = rooms
        with self.loop("r", 0, self.width, lanes=True) as r:
            self.store(self.top, r, self.number(-float("inf")))
            self.store(self.total, r, self.number(0.0))

    @property
    def late_scale(self) -> bool:
        """Whether the scale can be left to the step of the softmax: no mask is added to what was scaled."""
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

    def softmax(self, scores: Room, stride: int, lanes: int, place: Dim, many: Dim) -> None:
        """Scores become weights, for the ``lanes`` queries from ``place`` on; running maximum and sum follow."""
        operand = Operand(scores.buffer, scores.at + place, (dim(stride), dim(1)))
        state = (self.top.buffer, self.total.buffer, self.shrink.buffer)
        scale = self.number(float(self.params["scale"]) if self.late_scale else 1.0)
        self.e.append(SoftmaxTile(lanes, operand, many, scale, state, place))

    def share(self, r: Dim) -> tuple[Expr, Expr]:
        """What a query's sums are multiplied with to be averages, and whether it saw no key, when they are zero."""
        total = self.load(self.total, r)
        zero, no_keys = self.number(0.0), Position(-minimum(self.t, 1))
        nothing = zero if self.params["empty"] == 0.0 else Apply("x", (no_keys,), self.dtype)
        unseen = self.put(Apply("x <= y", (total, nothing), bool_))  # -1 of t keys: 0 / 0 is the answer, nan
        return self.apply("divide(x, y)", self.number(1.0), total), unseen

    def store_average(self, r: Dim, c: Dim, total: Expr, share: tuple[Expr, Expr]) -> None:
        """Write one element: a sum of weighted values, as the average that it is."""
        factor, unseen = share
        average = self.apply("where(x, y, z)", unseen, self.number(0.0), self.apply("x * y", total, factor))
        self.e.known[self.result.node, 0] = average
        store_results(self.e, self.face, (*self.index, self.first + r, c))
