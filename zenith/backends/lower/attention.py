"""Attention in one kernel: the scores of a block of queries and a block of keys exist in the cache only.

A task is a block of queries of one head. It goes through the keys in blocks and keeps, for each query, the largest
score so far, the sum of the exponentials and the weighted sum of the values; a larger score scales both sums down
(Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). Memory
is linear in the numbers of queries and keys.

Queries are the lanes. A task packs its queries as columns, once; then the register tile gives scores as
``[key][query]`` from keys that are read where they lie, at any strides; maxima, exponentials and sums are vectors
without a horizontal step; and the same tile multiplies the weights with the values, where they lie too. Columns of
values that do not fill a vector are copied into one.

A few queries alone (one, when a text is generated) do not fill a vector. For them a score is a sum along the columns of
query and key, and all passes run along the keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from zenith.backends.kernel import (
    Accumulator,
    Apply,
    Branch,
    Buffer,
    Expr,
    Fold,
    Kernel,
    Let,
    Load,
    Loop,
    Name,
    Number,
    Operand,
    PackPanel,
    Position,
    ProductTile,
    Scratch,
    SoftmaxTile,
    Statement,
    Store,
    TaskLoop,
)
from zenith.backends.lower.nest import Interface, bind, decode_into, store_results
from zenith.backends.lower.operand import Access, access
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph, Value
from zenith.ir.lowering import Tile
from zenith.ir.target import Target
from zenith.ir.types import bool_

KEYS = 64  # keys of a block: scores, queries and values of a head of 64 columns stay in the first-level cache
FEW = 4  # so many queries fill enough lanes
FEW_KEYS = 256  # keys of a block of theirs
STACK = 16384  # elements of a scratch buffer; larger ones are parts of a temporary buffer


@dataclass(frozen=True, slots=True)
class Room:
    """A task's own memory: element i is at position ``at + i`` of ``buffer``."""

    buffer: str
    at: Dim


@dataclass(frozen=True, slots=True)
class Panels:
    """The columns of the values: panels of ``vectors`` that are read in place, then ones of ``rest`` that are copied.

    ``whole`` and ``rests`` are how many, ``width`` is the columns of all, padding included.
    """

    whole: Dim
    vectors: int
    rests: Dim
    rest: int
    width: Dim


def _panels(columns: Dim, stride: Dim, lanes: int, most: int) -> Panels:
    """Panels of equal width, at most ``most`` vectors; where values are no rows of neighbours, all are copied."""
    vectors = most
    if columns.static is not None:
        total = max(1, -(-columns.static // lanes))
        vectors = -(-total // -(-total // most))
    whole = columns // (vectors * lanes) if stride == 1 else dim(0)
    left = columns - whole * (vectors * lanes)
    rest = vectors if left.static is None else min(vectors, -(-left.static // lanes))
    rests = (left + (rest * lanes - 1)) // (rest * lanes) if rest else dim(0)
    return Panels(whole, vectors, rests, rest, (whole * vectors + rests * rest) * lanes)


def lower_attention(body: Graph, target: Target) -> list[Kernel]:
    """The one kernel."""
    return [_Attention(body, target).lower()]


class _Attention:
    def __init__(self, body: Graph, target: Target) -> None:
        self.body, self.face = body, Interface.of(body)
        number = next(n for n, r in body.nodes() if isinstance(r.primitive.lowering, Tile))
        self.result = Value(number, 0, body.node(number).types[0])
        self.dtype, self.params = self.result.dtype, body.node(number).params
        self.query, self.key, self.value, *self.mask = body.args(number)
        self.batch, (self.s, self.d), self.t = self.query.shape[:-2], self.query.shape[-2:], self.key.shape[-2]
        self.columns = self.value.shape[-1]
        tile = target.product_tile(self.dtype, None)
        self.rows, self.vectors, self.lanes, self.width = tile.rows, tile.vectors, tile.lanes, tile.panel
        self.e = self.face.builder()
        self.temporaries: list[Buffer] = []

    # --- writing statements ---

    def _put(self, expr: Expr, stem: str = "v") -> Name:
        """Bind an expression here: what stands in a task's own memory changes, so its loads must not move."""
        name = self.e.fresh(stem)
        self.e.level_of[name] = len(self.e.levels) - 1
        self.e.append(Let(name, expr))
        return Name(name, expr.dtype)

    def _apply(self, text: str, *args: Expr) -> Name:
        return self._put(Apply(text, args, self.dtype))

    def _load(self, room: Room, at: Dim) -> Name:
        return self._put(Load(room.buffer, room.at + at, self.dtype))

    def _read(self, operand: Access, at: Dim) -> Name:
        """An operand's element at a position of its buffer, which may hold 16-bit floats."""
        element = self._put(Load(operand.buffer, at, operand.dtype))
        return element if operand.dtype == self.dtype else self._apply("x", element)

    def _store(self, room: Room, at: Dim, value: Expr) -> None:
        self.e.append(Store(room.buffer, room.at + at, value))

    def _number(self, value: float) -> Number:
        return Number(value, self.dtype)

    @contextmanager
    def _loop(self, stem: str, start: Dim | int, stop: Dim | int, lanes: bool = False) -> Iterator[Dim]:
        index = self.e.fresh(stem)
        self.e.open(index)
        yield symbol(index)
        self.e.append(Loop(index, dim(start), dim(stop), lanes, self.e.close()))

    def _case(self, write: Callable[[], None]) -> tuple[Statement, ...]:
        self.e.open()
        write()
        return self.e.close()

    def _choose(self, at: Dim, cases: Sequence[Callable[[], None]]) -> None:
        """Write the case of a number, all cases when the number is not known."""
        if at.static is not None:
            cases[at.static]()
        else:
            self.e.append(Branch(bind(self.e, "case", at), 0, tuple(map(self._case, cases))))

    def _room(self, stem: str, length: Dim | int) -> Room:
        """Memory for a task: on the stack, or its part of a temporary buffer."""
        name, length = self.e.fresh(stem), dim(length)
        if length.static is not None and length.static <= STACK:
            self.e.levels[0].statements.append(Scratch(name, self.dtype, max(1, length.static)))
            return Room(name, dim(0))
        self.temporaries.append(Buffer(name, self.dtype, length * self.tasks, "temporary"))
        return Room(name, bind(self.e, f"{stem}_at", symbol(self.task) * length))

    # --- the kernel ---

    def lower(self) -> Kernel:
        """Task t is block ``t % blocks`` of the queries of head ``t // blocks``."""
        e, blocks = self.e, (self.s + (self.width - 1)) // self.width
        self.tasks = product(self.batch) * blocks
        self.task = e.fresh("t")
        e.open(self.task)
        block = bind(e, "block", symbol(self.task) % blocks)
        head = bind(e, "head", symbol(self.task) // blocks)
        index = self.index = tuple(decode_into(e, head, list(self.batch))) if self.batch else ()
        self.first = bind(e, "first", block * self.width)
        self.count = self._block_length()
        self.q, self.k, self.v = (access(self.face, x, index) for x in (self.query, self.key, self.value))
        slack = self.rows * self.width  # a tile that ends with the last key may begin before the first
        self.panels = _panels(self.columns, self.v.strides[1], self.lanes, self.vectors)
        self.keys = bind(e, "keys", self._seen(self.count))
        self.scores = Room(self._room("scores", (KEYS + 1) * self.width + 2 * slack).buffer, dim(slack))
        self.top, self.total, self.shrink = (self._room(n, self.width + self.rows) for n in ("top", "total", "shrink"))
        self.spare = self._room("spare", FEW_KEYS * self.panels.rest * self.lanes)
        self.sums = self._room("sums", self.panels.width * (self.width + self.rows))
        with self._loop("r", 0, self.width, lanes=True) as r:
            self._store(self.top, r, self._number(-float("inf")))
            self._store(self.total, r, self._number(0.0))
        fills = minimum(self.count // FEW, 1) * minimum(self.keys // self.rows, 1)
        self._choose(fills, (self._write_few, self._write_block))
        self._store_average()
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

    def _seen(self, row: Dim) -> Dim:
        """How many keys the queries before ``row`` of the block see at most."""
        return minimum(self.t, self.first + row) if self.params["causal"] else self.t

    def _masked(self, score: Expr, row: Dim, key: Dim) -> Expr:
        """A product as a score: scaled, with the mask applied."""
        score = self._apply("x * y", score, self._number(self.params["scale"]))
        if not self.mask:
            return score
        mask = self.e.element(self.mask[0], (*self.index, self.first + row, key))
        if self.params["mask"] == "add":
            return self._apply("x + y", score, mask)
        return self._apply("where(x, y, z)", mask, score, self._number(-float("inf")))

    # --- a block of queries, one a lane ---

    def _write_block(self) -> None:
        e = self.e
        self.active = bind(e, "active", (self.count + (self.lanes - 1)) // self.lanes)
        self.packed = self._room("packed", self.d * self.width)
        self._pack_queries()
        with self._loop("part", 0, (self.keys + (KEYS - 1)) // KEYS) as part:
            start = bind(e, "start", part * KEYS)
            many = bind(e, "many", minimum(self.keys - start, KEYS))
            self._write_products(start, many)
            scale = self._scaled_and_masked(start, many)
            self._hide(start, many)
            self._weigh(many, scale)
            with self._loop("r", 0, self.count * minimum(part, 1)) as r:
                self._shrink_sums(r)
            tiles = (self.count + (self.rows - 1)) // self.rows
            weights = Operand(self.scores.buffer, self.scores.at, (dim(1), dim(self.width)))
            self._average(part, start, many, tiles, self.rows, weights, dim(0))

    def _pack_queries(self) -> None:
        """Queries as columns; unused lanes are zero."""
        source = Operand(self.q.buffer, self.q.at + self.first * self.q.strides[0], self.q.strides[::-1])
        pack = PackPanel(self.vectors, self.lanes, self.packed.buffer, self.packed.at, source, self.d, self.count)
        self.e.append(pack)

    def _write_products(self, start: Dim, many: Dim) -> None:
        """Products as [key][query], in tiles as wide as the queries need."""
        widths = ((self.vectors + 1) // 2, self.vectors)
        whole = minimum((self.active - 1) // widths[0], 1)
        self._choose(whole, [partial(self._product_tiles, start, many, w) for w in widths])

    def _product_tiles(self, start: Dim, many: Dim, vectors: int) -> None:
        with self._loop("i", 0, (many + (self.rows - 1)) // self.rows) as i:
            first = bind(self.e, "key", minimum(i * self.rows, many - self.rows))
            scores = Operand(self.scores.buffer, self.scores.at + first * self.width, (dim(self.width), dim(1)))
            keys = Operand(self.k.buffer, self.k.at + (start + first) * self.k.strides[0], self.k.strides)
            queries = Operand(self.packed.buffer, self.packed.at, (dim(self.width), dim(1)))
            tile = ProductTile(self.rows, vectors, self.lanes, scores, keys, queries, self.d, self.packed.at)
            self.e.append(tile)

    def _hide(self, start: Dim, many: Dim) -> None:
        """Causal: a key is not seen by the queries before it."""
        if not self.params["causal"]:
            return
        with self._loop("key", maximum(self.first + 1 - start, 0), many) as key:
            hidden = bind(self.e, "hidden", minimum(start + key - self.first, self.width))
            with self._loop("r", 0, hidden, lanes=True) as r:
                self._store(self.scores, key * self.width + r, self._number(-float("inf")))

    def _scaled_and_masked(self, start: Dim, many: Dim) -> float:
        """Make scores of the products, unless a scale does it alone, later; returns that scale."""
        if not self.mask and self.params["scale"] > 0:
            return float(self.params["scale"])
        with self._loop("vector", 0, self.active) as vector, self._loop("key", 0, many) as key:
            place = bind(self.e, "place", key * self.width + vector * self.lanes)
            with self._loop("l", 0, self.lanes, lanes=True) as lane:
                row = minimum(vector * self.lanes + lane, self.count - 1)  # unused lanes repeat the last query
                score = self._masked(self._load(self.scores, place + lane), row, start + key)
                self._store(self.scores, place + lane, score)
        return 1.0

    def _weigh(self, many: Dim, scale: float) -> None:
        """Scores become weights; running maximum and sum follow."""
        with self._loop("vector", 0, self.active) as vector:
            at = bind(self.e, "lane", vector * self.lanes)
            scores = Operand(self.scores.buffer, self.scores.at + at, (dim(self.width), dim(1)))
            state = (self.top.buffer, self.total.buffer, self.shrink.buffer)
            self.e.append(SoftmaxTile(self.lanes, scores, many, self._number(scale), state, at))

    def _shrink_sums(self, row: Dim) -> None:
        """Earlier sums of a query become relative to its largest score."""
        shrink = self._load(self.shrink, row)
        at = bind(self.e, "sums_at", row * self.panels.width)
        with self._loop("c", 0, self.panels.width, lanes=True) as c:
            self._store(self.sums, at + c, self._apply("x * y", self._load(self.sums, at + c), shrink))

    # --- weights times values ---

    def _average(self, part: Dim, start: Dim, many: Dim, tiles: Dim, rows: int, weights: Operand, row: Dim) -> None:
        """Add the weighted values of a block of keys to the sums, the first of which are those of row ``row``."""
        cut, origin = self.panels, self.v.at + start * self.v.strides[0]

        def panel(values: Operand, vectors: int, column: Dim) -> None:
            with self._loop("i", 0, tiles) as i:
                at = self.sums.at + (row + i * rows) * cut.width + column
                sums = Operand(self.sums.buffer, at, (cut.width, dim(1)))
                left = replace(weights, at=weights.at + i * rows)
                self.e.append(ProductTile(rows, vectors, self.lanes, sums, left, values, many, values.at, part))

        if cut.whole != 0:
            with self._loop("panel", 0, cut.whole) as whole:
                column = bind(self.e, "column", whole * (cut.vectors * self.lanes))
                panel(Operand(self.v.buffer, origin + column, (self.v.strides[0], dim(1))), cut.vectors, column)
        if cut.rests != 0:
            with self._loop("rest", 0, cut.rests) as rest:
                width = cut.rest * self.lanes
                column = bind(self.e, "column", cut.whole * (cut.vectors * self.lanes) + rest * width)
                source = Operand(self.v.buffer, origin + column * self.v.strides[1], self.v.strides)
                valid = bind(self.e, "valid", minimum(self.columns - column, width))
                copy = PackPanel(cut.rest, self.lanes, self.spare.buffer, self.spare.at, source, many, valid)
                self.e.append(copy)
                panel(Operand(self.spare.buffer, self.spare.at, (dim(width), dim(1))), cut.rest, column)

    def _store_average(self) -> None:
        """The weighted sums divided by the sums of the weights; those are zero where no key is seen."""
        zero = self._number(0.0)
        with self._loop("r", 0, self.count) as r:
            total = self._load(self.total, r)
            nothing = zero if self.params["empty"] == 0.0 else Apply("x", (Position(-minimum(self.t, 1)),), self.dtype)
            unseen = self._put(Apply("x <= y", (total, nothing), bool_))  # -1 of t keys: 0 / 0 is the answer, nan
            factor = self._apply("divide(x, y)", self._number(1.0), total)
            with self._loop("c", 0, self.columns, lanes=True) as c:
                average = self._apply("x * y", self._load(self.sums, r * self.panels.width + c), factor)
                average = self._apply("where(x, y, z)", unseen, zero, average)
                self.e.known[self.result.node, 0] = average
                store_results(self.e, self.face, (*self.index, self.first + r, c))

    # --- a few queries, one after the other, keys are lanes ---

    def _write_few(self) -> None:
        e = self.e
        with self._loop("r", 0, self.count) as r:
            keys = bind(e, "keys", self._seen(r + 1))
            with self._loop("part", 0, (keys + (FEW_KEYS - 1)) // FEW_KEYS) as part:
                start = bind(e, "start", part * FEW_KEYS)
                many = bind(e, "many", minimum(keys - start, FEW_KEYS))
                self._score_keys(r, start, many)
                self._weigh_keys(r, many)
                self._shrink_sums(r)
                weights = Operand(self.scores.buffer, self.scores.at, (dim(0), dim(1)))
                self._average(part, start, many, dim(1), 1, weights, r)

    def _score_keys(self, r: Dim, start: Dim, many: Dim) -> None:
        """The scores of one query, each a sum of products; then their largest, joined to the running one."""
        e = self.e
        query = bind(e, "query_at", self.q.at + (self.first + r) * self.q.strides[0])
        with self._loop("key", 0, many) as key:
            row = bind(e, "key_at", self.k.at + (start + key) * self.k.strides[0])
            d, total = e.fresh("d"), e.fresh("dot")
            e.open(d)
            pair = (
                self._read(self.q, query + symbol(d) * self.q.strides[1]),
                self._read(self.k, row + symbol(d) * self.k.strides[1]),
            )
            terms = Accumulator(total, self.dtype, 0.0, "x + y", self._apply("x * y", *pair))
            e.append(Fold(d, dim(0), self.d, e.close(), (terms,)))
            e.level_of[total] = len(e.levels) - 1
            self._store(self.scores, key, self._masked(Name(total, self.dtype), r, start + key))

    def _weigh_keys(self, r: Dim, many: Dim) -> None:
        """The same step as for a block, along the keys."""
        top = self._fold(many, -float("inf"), "maximum(x, y)", lambda key: self._load(self.scores, key))
        before = self._load(self.top, r)
        top = self._apply("maximum(x, y)", before, top)
        base = self._apply("where(x == y, z, x)", top, self._number(-float("inf")), self._number(0.0))
        shrink = self._apply("exp(x - y)", before, base)

        def weight(key: Dim) -> Expr:
            found = self._apply("exp(x - y)", self._load(self.scores, key), base)
            self._store(self.scores, key, found)
            return found

        total = self._fold(many, 0.0, "x + y", weight)
        self._store(self.top, r, top)
        self._store(self.shrink, r, shrink)
        self._store(self.total, r, self._apply("x * y + z", self._load(self.total, r), shrink, total))

    def _fold(self, many: Dim, initial: float, combine: str, value: Callable[[Dim], Expr]) -> Name:
        index, name = self.e.fresh("key"), self.e.fresh("joined")
        self.e.open(index)
        accumulator = Accumulator(name, self.dtype, initial, combine, value(symbol(index)))
        self.e.append(Fold(index, dim(0), many, self.e.close(), (accumulator,)))
        self.e.level_of[name] = len(self.e.levels) - 1
        return Name(name, self.dtype)
