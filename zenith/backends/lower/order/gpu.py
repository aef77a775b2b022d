"""Sorting for thousands of threads, by digits: blocks of threads move the elements of tiles.

A short row is one thread's, which merges runs; a row that fits a tile is a block's, which orders it by one digit after
the other without leaving shared memory. Of longer rows blocks have parts, and a step has three kernels, as on a CPU
(:mod:`zenith.backends.lower.order.split_radix_sort`): each part counts its digits; it is added up where its elements of
every digit begin; the part goes through its tiles, orders each, and moves neighbours to neighbouring places. The counts
are added up for all digits at the same time, and those of whole digits by every part for itself.
"""

from __future__ import annotations

from zenith.backends.kernel import (
    Apply,
    AtomicAdd,
    Branch,
    Buffer,
    Expr,
    Kernel,
    Load,
    Number,
    Position,
    Store,
    TaskLoop,
)
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.nest import Interface, bind
from zenith.backends.lower.order.block_radix_rank import VALUES, Adding, OrderWriter, TileOrder
from zenith.backends.lower.order.radix_sort import MERGES, Sorting, one_if_above, sort_rows
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.memory_effects import buffers_of
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.graph import Graph
from zenith.ir.ops.sort import OPERATIONS
from zenith.ir.types import bool_, int32, int64

SHORT = 16  # elements of rows that are one thread's
EACH, EACH_OF_8 = 9, 5  # items of a thread in a tile that is a row, fewer of 8 bytes: all fits 48 KB
OF_PARTS = 9  # and in a tile of a longer row, whose elements stay where they are
MOST = 512  # parts of a row: blocks that keep a large GPU busy


def lower_shared_sort(body: Graph, face: Interface | None = None) -> list[Kernel]:
    """The kernels of short, medium and long rows, with the results of ``face``; sizes decide which have tasks."""
    s = Sorting(body, face)
    each = EACH_OF_8 if s.keys.dtype.itemsize == 8 else EACH
    beyond_one, beyond_tile = one_if_above(s.size, SHORT), one_if_above(s.size, each * VALUES)
    kernels = [sort_rows(s, 1 - beyond_one, MERGES)] if beyond_one != 1 else []
    medium = beyond_one - beyond_tile
    kernels += [_row_kernel(s, medium, each)] if medium != 0 else []
    return kernels + (_SharedParts(s, beyond_tile).lower() if beyond_tile != 0 else [])


def digit(s: Sorting, key: Expr, step: Dim) -> Expr:
    """A digit of an element, of which the smallest stands first."""
    mirrored = f" ^ {VALUES - 1}" if s.descending else ""
    return Apply(f"digit(x, y){mirrored}", (key, Position(step)), int64)


def _row_kernel(s: Sorting, wanted: Dim, each: int) -> Kernel:
    """A row a block: its elements stay where they are, and their order changes digit by digit."""
    e = s.builder()
    row = e.fresh("row")
    e.open(row)
    w = TileOrder(e, each)
    held, count = w.shared("held", w.tile, s.keys.dtype), s.size
    with w.loop(count) as i:
        e.append(Store(held.name, i, _element(s, e, symbol(row), i)))
    with w.loop(w.tile) as i:
        w.set_item(i, i, 0)
    with w.loop(s.steps, lanes=False) as step:
        with w.loop(w.tile) as i:
            place = w.place(i)
            key = Load(held.name, minimum(place, count - 1), held.dtype)
            _set_digit(w, i, place, count, digit(s, key, step))
        w.sort()
    with w.loop(count) as i:
        place = w.place(i)
        _write(s, e, symbol(row) * count + i, Load(held.name, place, held.dtype), Position(place))
    e.append(TaskLoop(row, s.rows * wanted, None, (), e.close(), False))
    cost = count * (s.steps * OPERATIONS)
    return Kernel("kernel", s.face.doc(), s.face.buffers, s.face.symbols, s.rows * wanted, cost,
                  (*w.scratch, *e.close()), operations=s.operations * wanted, wide=False)  # fmt: skip


def _set_digit(w: TileOrder, at: Dim, place: Dim, count: Dim, found: Expr) -> None:
    """Give an item its digit: the last one where the tile has no such element."""
    w.set_item(at, place, symbol(w.where(w.below(place, count), found, Number(VALUES - 1, int64)).name))


def _element(s: Sorting, e: ElementBuilder, row: Dim, i: Dim) -> Expr:
    """An element as one that is sorted."""
    return e.let(Apply("x", (e.element(s.x, (*decode(row, s.x.shape[:-1]), i)),), s.keys.dtype))


def _write(s: Sorting, e: ElementBuilder, at: Dim, key: Expr, place: Expr) -> None:
    """Write the results that there are for one element."""
    values, places = s.output(0), s.output(1)
    if values is not None:
        e.append(Store(values, at, key if key.dtype == s.x.dtype else Apply("x", (key,), s.x.dtype)))
    if places is not None:
        e.append(Store(places, at, place))


class _SharedParts:
    """The kernels of long rows. All steps run the same ones, so what they have to know stands in memory.

    ``counts`` are those of a digit in a part, later where its elements begin among those of the digit, and ``totals``
    those of a digit in a row. ``steps`` is how many digits were added up, once for each task that does it, and
    ``halves`` which half of the buffers has the elements before each step.
    """

    def __init__(self, s: Sorting, wanted: Dim) -> None:
        self.s, self.wanted = s, wanted
        tile = OF_PARTS * VALUES
        self.parts = maximum(1, minimum(quotient_up(s.size, tile), MOST))
        self.share = quotient_up(quotient_up(s.size, tile), self.parts) * tile
        digits = s.rows * VALUES * wanted
        self.counts = self._buffer("counts", digits * self.parts + 1)
        self.totals, self.steps = self._buffer("totals", digits), self._buffer("steps", digits)
        self.halves = self._buffer("halves", s.rows * (s.steps + 1) * wanted)

    def lower(self) -> list[Kernel]:
        """The first step, whose counts are made while elements are read, and the others, by the same kernels."""
        add_up, count, move = self._add_up(), self._count(first=False), self._move()
        return [self._count(first=True), add_up, move, *[count, add_up, move] * (self.s.steps - 1)]

    def _buffer(self, stem: str, length: Dim) -> Buffer:
        return Buffer(self.s.builder().fresh(stem), int64, length, "temporary")

    @property
    def _own(self) -> tuple[Buffer, ...]:
        return (self.counts, self.totals, self.steps, self.halves)

    def _open_part(self) -> tuple[ElementBuilder, str, Dim, Dim, Dim, Dim]:
        """Begin the task of a part: its row, its number, the first of its elements, and the one behind the last."""
        e = self.s.builder({b.name for b in self._own})
        task = e.fresh("item")
        e.open(task)
        many = bind(e, "many", self.parts)
        row, part = bind(e, "row", symbol(task) // many), bind(e, "part_of", symbol(task) % many)
        share = bind(e, "share", self.share)
        start = bind(e, "start", minimum(part * share, self.s.size))
        return e, task, row, part, start, bind(e, "stop", minimum(start + share, self.s.size))

    def _count(self, first: bool) -> Kernel:
        """How often a part has each digit; at first its elements are copied, with their places."""
        e, task, row, part, start, stop = self._open_part()
        w, s = OrderWriter(e), self.s
        found = w.shared("found", VALUES)
        with w.loop(VALUES) as d:
            w.store(found, d, 0)
            if first:
                w.store(self.steps, row * VALUES + d, 0)
        if first:
            w.store(self.halves, row * (s.steps + 1), 0)
        step = dim(0) if first else w.load(self.steps, row * VALUES)
        half = dim(0) if first else w.load(self.halves, row * (s.steps + 1) + step)
        source = bind(e, "source", (row * 2 + half) * s.size)
        with w.loop(stop, start) as i:
            key: Expr = Load(s.keys.name, source + i, s.keys.dtype)
            if first:
                key = _element(s, e, row, i)
                e.append(Store(s.keys.name, source + i, key))
                if s.places is not None:
                    w.store(s.places, source + i, i)
            e.append(AtomicAdd(found.name, w.put(digit(s, key, step)), Number(1, int32)))
        with w.loop(VALUES) as d:
            w.store(self.counts, (row * VALUES + d) * self.parts + part, w.load(found, d))
        return self._close(w, task, self.parts, self.s.operations * self.wanted if first else dim(0))

    def _add_up(self) -> Kernel:
        """A digit of a row a task: where each part's elements of it begin, among those of the digit."""
        e = self.s.builder({b.name for b in self._own})
        task = e.fresh("item")
        e.open(task)
        w = Adding(e, int64)
        many = bind(e, "many", self.parts)
        each, first = bind(e, "each", quotient_up(many, VALUES)), bind(e, "base", symbol(task) * many)

        def held(part: Dim) -> Expr:
            return w.where(w.below(part, many), w.element(self.counts, first + minimum(part, many - 1)))

        with w.loop(VALUES) as t:
            e.append(Store(w.sums.name, t, w.total(each, lambda j: held(t * each + j))))
        w.add_up()
        with w.loop(VALUES) as t, w.loop(each, lanes=False) as j:
            part, count, begin = t * each + j, held(t * each + j), w.load(w.begins, t)
            nowhere = Position(self.counts.size - 1)
            at = w.where(w.below(part, many), Position(first + part), nowhere)
            w.store(self.counts, symbol(at.name), begin)
            e.append(Store(w.begins.name, t, Apply("x + y", (count, Position(begin)), int64)))
        w.store(self.totals, symbol(task), w.load(w.begins, VALUES - 1))
        w.store(self.steps, symbol(task), w.load(self.steps, symbol(task)) + 1)
        return self._close(w, task, dim(VALUES), dim(0))

    def _move(self) -> Kernel:
        """Move the elements of a part, a tile at a time; in the last step to the results."""
        e, task, row, part, start, stop = self._open_part()
        w, s = TileOrder(e, OF_PARTS), self.s
        step = w.put(Position(w.load(self.steps, row * VALUES) - 1))
        half = w.load(self.halves, row * (s.steps + 1) + step)
        most = w.total(VALUES, lambda d: w.element(self.totals, row * VALUES + d), "maximum(x, y)")
        differ = w.below(symbol(most.name), s.size)  # a digit that all share moves nothing
        last = w.choice(w.below(step, s.steps - 1), 0, 1)
        other = w.choice(differ, 1 - half, half)
        w.store(self.halves, row * (s.steps + 1) + step + 1, other)
        moves = maximum(w.choice(differ, 1, 0), last)
        e.open()
        source, target = (bind(e, stem, (row * 2 + at) * s.size) for stem, at in (("source", half), ("target", other)))
        offsets = self._offsets(w, row, part)
        with w.loop(quotient_up(stop - start, w.tile), lanes=False) as tile:
            first = bind(e, "first", start + tile * w.tile)
            count = bind(e, "count", minimum(stop - first, w.tile))
            self._order(w, source + first, count, step)
            runs = self._find_runs(w, count)
            self._move_tile(w, (source + first, target, row * s.size), count, offsets, runs[0], last)
            with w.loop(VALUES) as d:
                w.store(offsets, d, w.load(offsets, d) + w.load(runs[1], d) - w.load(runs[0], d))
        e.append(Branch(moves, 1, (e.close(),)))
        return self._close(w, task, self.parts, dim(0))

    def _offsets(self, w: TileOrder, row: Dim, part: Dim) -> Buffer:
        """Where in the row the part's elements of each digit go."""
        adding = Adding(w.e, int64)
        with w.loop(VALUES) as d:
            w.store(adding.sums, d, w.load(self.totals, row * VALUES + d))
        adding.add_up()
        with w.loop(VALUES) as d:
            own = w.load(self.counts, (row * VALUES + d) * self.parts + part)
            w.store(adding.begins, d, w.load(adding.begins, d) + own)
        w.scratch += adding.scratch
        return adding.begins

    def _order(self, w: TileOrder, first: Dim, count: Dim, step: Dim) -> None:
        """Order the items of a tile of ``count`` elements, of which the first is at a position of the keys."""
        keys = self.s.keys
        with w.loop(w.tile) as i:
            key = Load(keys.name, first + minimum(i, count - 1), keys.dtype)
            _set_digit(w, i, i, count, digit(self.s, key, step))
        w.sort()

    def _find_runs(self, w: TileOrder, count: Dim) -> tuple[Buffer, Buffer]:
        """Where the run of each digit starts and stops in an ordered tile; what does neither is noted for no digit."""
        starts, stops = (w.shared(stem, VALUES + 1) for stem in ("starts", "stops"))
        with w.loop(VALUES) as d:
            w.store(starts, d, 0)
            w.store(stops, d, 0)
        with w.loop(count) as i:
            own = w.digit(i)
            for buffer, edge, near, at in ((starts, dim(0), i - 1, i), (stops, count - 1, i + 1, i + 1)):
                other = w.digit(maximum(minimum(near, count - 1), 0))
                within = Apply("x != y", (Position(i), Position(edge)), bool_)
                inside = Apply("(x == y) & z", (Position(own), Position(other), within), bool_)
                w.store(buffer, w.choice(inside, VALUES, own), at)
        return starts, stops

    def _move_tile(
        self, w: TileOrder, places: tuple[Dim, Dim, Dim], count: Dim, offsets: Buffer, starts: Buffer, last: Dim
    ) -> None:
        """Move an ordered tile from a place to the other half, or in the last step to results that begin at a third."""
        (first, target, result), s, e = places, self.s, w.e
        with w.loop(count) as i:
            place, d = w.place(i), w.digit(i)
            at = w.put(Position(w.load(offsets, d) + i - w.load(starts, d)))
            e.open()
            e.append(Store(s.keys.name, target + at, Load(s.keys.name, first + place, s.keys.dtype)))
            if s.places is not None:
                e.append(Store(s.places.name, target + at, Load(s.places.name, first + place, int64)))
            moved = e.close()
            e.open()
            own: Expr = Load(s.places.name, first + place, int64) if s.places else Position(place)
            _write(s, e, result + at, Load(s.keys.name, first + place, s.keys.dtype), own)
            e.append(Branch(last, 0, (moved, e.close())))

    def _close(self, w: OrderWriter, task: str, of_row: Dim, operations: Dim) -> Kernel:
        """The kernel of so many tasks of a row, on the buffers that it uses."""
        s, tasks = self.s, self.s.rows * of_row * self.wanted
        w.e.append(TaskLoop(task, tasks, None, (), w.e.close(), False))
        body = (*w.scratch, *w.e.close())
        used = buffers_of(body)
        buffers = tuple(b for b in (*s.face.buffers, *s.moved, *self._own) if b.name in used)
        cost = quotient_up(s.size, self.parts) * OPERATIONS
        return Kernel(
            "kernel", s.face.doc(), buffers, s.face.symbols, tasks, cost, body, operations=operations, wide=False
        )
