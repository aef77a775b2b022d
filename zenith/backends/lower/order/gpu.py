"""Sorting for thousands of threads, by digits: blocks of threads move the elements of tiles.

One thread sorts a short row, by merging runs; a block sorts a row that fits a tile, digit by digit in shared memory.
Longer rows are split among blocks, and a step has three kernels, as on a CPU
(:mod:`zenith.backends.lower.order.split_radix_sort`): each split counts its digits (a histogram); a scan finds where
its elements of every digit begin; the split sorts its tiles, one after another, and scatters neighbours to neighbouring
positions. The counts of all digits are scanned at the same time, and those of whole digits by every split for itself.
"""

from __future__ import annotations

from zenith.backends.expressions import Apply, Expr, Load, Number, Position
from zenith.backends.kernel import AtomicAdd, Branch, Buffer, Kernel, Store, TaskLoop
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.nest import KernelInterface, bind, with_used_buffers
from zenith.backends.lower.order.block_radix_rank import VALUES, ExclusiveScan, OrderWriter, TileOrder
from zenith.backends.lower.order.radix_sort import MERGES, RadixSorting, sort_rows
from zenith.backends.lower.order.sorting import one_if_above
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum, symbol
from zenith.ir.graph import Graph
from zenith.ir.ops.sort import OPERATIONS
from zenith.ir.types import bool_, int32, int64

SHORT = 16  # elements of rows that are one thread's
EACH, EACH_OF_8 = 9, 5  # items of a thread in a tile that is a row, fewer of 8 bytes: all fits 48 KB
ITEMS_OF_SPLITS = 9  # and in a tile of a longer row, whose elements stay in global memory
MOST = 512  # splits of a row: blocks that keep a large GPU busy


def lower_shared_sort(body: Graph, face: KernelInterface | None = None) -> list[Kernel]:
    """The kernels of short, medium and long rows, with the results of ``face``; sizes decide which have tasks."""
    s = RadixSorting(body, face)
    each = EACH_OF_8 if s.keys.dtype.itemsize == 8 else EACH
    beyond_one, beyond_tile = one_if_above(s.size, SHORT), one_if_above(s.size, each * VALUES)
    kernels = [sort_rows(s, 1 - beyond_one, MERGES)] if beyond_one != 1 else []
    medium = beyond_one - beyond_tile
    kernels += [_row_kernel(s, medium, each)] if medium != 0 else []
    return kernels + (_SharedSplits(s, beyond_tile).lower() if beyond_tile != 0 else [])


def digit(s: RadixSorting, key: Expr, step: Dim) -> Expr:
    """A digit of an element; in the results the smallest comes first."""
    mirrored = f" ^ {VALUES - 1}" if s.descending else ""
    return Apply(f"digit(x, y){mirrored}", (key, Position(step)), int64)


def _row_kernel(s: RadixSorting, wanted: Dim, each: int) -> Kernel:
    """A row a block: its elements do not move in shared memory, only their order changes, digit by digit."""
    e = s.builder()
    row = e.fresh("row")
    e.open(row)
    w = TileOrder(e, each)
    elements, count = w.shared("own", w.tile, s.keys.dtype), s.size
    with w.loop(count) as i:
        e.append(Store(elements.name, i, _element(s, e, symbol(row), i)))
    with w.loop(w.tile) as i:
        w.set_item(i, i, 0)
    with w.loop(s.steps, lanes=False) as step:
        with w.loop(w.tile) as i:
            index = w.index(i)
            key = Load(elements.name, minimum(index, count - 1), elements.dtype)
            _set_digit(w, i, index, count, digit(s, key, step))
        w.sort()
    with w.loop(count) as i:
        index = w.index(i)
        _write(s, e, symbol(row) * count + i, Load(elements.name, index, elements.dtype), Position(index))
    e.append(TaskLoop(row, s.rows * wanted, None, (), e.close(), False))
    cost = count * (s.steps * OPERATIONS)
    return Kernel("kernel", s.face.doc(), s.face.buffers, s.face.symbols, s.rows * wanted, cost,
                  (*w.scratch, *e.close()), operations=s.operations * wanted, wide=False)  # fmt: skip


def _set_digit(w: TileOrder, at: Dim, index: Dim, count: Dim, found: Expr) -> None:
    """Give an item its digit: the last one for padding of the tile."""
    w.set_item(at, index, symbol(w.where(w.below(index, count), found, Number(VALUES - 1, int64)).name))


def _element(s: RadixSorting, e: ElementBuilder, row: Dim, i: Dim) -> Expr:
    """An element of the operand, in the type of the keys."""
    return e.let(Apply("x", (e.element(s.x, (*decode(row, s.x.shape[:-1]), i)),), s.keys.dtype))


def _write(s: RadixSorting, e: ElementBuilder, at: Dim, key: Expr, index: Expr) -> None:
    """Write the results of one element: its value, its index, or both."""
    values, indices = s.output(0), s.output(1)
    if values is not None:
        e.append(Store(values, at, key if key.dtype == s.x.dtype else Apply("x", (key,), s.x.dtype)))
    if indices is not None:
        e.append(Store(indices, at, index))


class _SharedSplits:
    """The kernels of long rows. All steps run the same ones, so their state is in memory.

    ``counts`` are those of a digit in a split, later where its elements begin among those of the digit, and ``totals``
    those of a digit in a row. ``steps`` is how many digits were scanned, once for each task that does it, and
    ``halves`` which half of the buffers has the elements before each step.
    """

    def __init__(self, s: RadixSorting, wanted: Dim) -> None:
        self.s, self.wanted = s, wanted
        tile = ITEMS_OF_SPLITS * VALUES
        self.splits = maximum(1, minimum(quotient_up(s.size, tile), MOST))
        self.share = quotient_up(quotient_up(s.size, tile), self.splits) * tile
        digits = s.rows * VALUES * wanted
        self.counts = self._buffer("counts", digits * self.splits + 1)
        self.totals, self.steps = self._buffer("totals", digits), self._buffer("steps", digits)
        self.halves = self._buffer("halves", s.rows * (s.steps + 1) * wanted)

    def lower(self) -> list[Kernel]:
        """The first step, which counts digits while it reads elements, and the others, by the same kernels."""
        scan, count, move = self._scan(), self._count(first=False), self._move()
        return [self._count(first=True), scan, move, *[count, scan, move] * (self.s.steps - 1)]

    def _buffer(self, stem: str, length: Dim) -> Buffer:
        return Buffer(self.s.builder().fresh(stem), int64, length, "temporary")

    @property
    def _own(self) -> tuple[Buffer, ...]:
        return (self.counts, self.totals, self.steps, self.halves)

    def _open_split(self) -> tuple[ElementBuilder, str, Dim, Dim, Dim, Dim]:
        """Begin the task of a split: its row, its number, where its elements start and where they stop."""
        e = self.s.builder({b.name for b in self._own})
        task = e.fresh("item")
        e.open(task)
        many = bind(e, "many", self.splits)
        row, split = bind(e, "row", symbol(task) // many), bind(e, "split_index", symbol(task) % many)
        share = bind(e, "share", self.share)
        start = bind(e, "start", minimum(split * share, self.s.size))
        return e, task, row, split, start, bind(e, "stop", minimum(start + share, self.s.size))

    def _count(self, first: bool) -> Kernel:
        """The histogram of a split; the first one copies the elements, too, with their indices."""
        e, task, row, split, start, stop = self._open_split()
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
                if s.indices is not None:
                    w.store(s.indices, source + i, i)
            e.append(AtomicAdd(found.name, w.put(digit(s, key, step)), Number(1, int32)))
        with w.loop(VALUES) as d:
            w.store(self.counts, (row * VALUES + d) * self.splits + split, w.load(found, d))
        return self._close(w, task, self.splits, self.s.operations * self.wanted if first else dim(0))

    def _scan(self) -> Kernel:
        """A digit of a row a task: where each split's elements of it begin, among those of the digit."""
        e = self.s.builder({b.name for b in self._own})
        task = e.fresh("item")
        e.open(task)
        w = ExclusiveScan(e, int64)
        many = bind(e, "many", self.splits)
        each, first = bind(e, "each", quotient_up(many, VALUES)), bind(e, "base", symbol(task) * many)

        def count_of(split: Dim) -> Expr:
            return w.where(w.below(split, many), w.element(self.counts, first + minimum(split, many - 1)))

        with w.loop(VALUES) as t:
            e.append(Store(w.sums.name, t, w.total(each, lambda j: count_of(t * each + j))))
        w.scan()
        with w.loop(VALUES) as t, w.loop(each, lanes=False) as j:
            split, count, begin = t * each + j, count_of(t * each + j), w.load(w.begins, t)
            nowhere = Position(self.counts.size - 1)
            at = w.where(w.below(split, many), Position(first + split), nowhere)
            w.store(self.counts, symbol(at.name), begin)
            e.append(Store(w.begins.name, t, Apply("x + y", (count, Position(begin)), int64)))
        w.store(self.totals, symbol(task), w.load(w.begins, VALUES - 1))
        w.store(self.steps, symbol(task), w.load(self.steps, symbol(task)) + 1)
        return self._close(w, task, dim(VALUES), dim(0))

    def _move(self) -> Kernel:
        """Scatter the elements of a split, a tile at a time; in the last step to the results."""
        e, task, row, split, start, stop = self._open_split()
        w, s = TileOrder(e, ITEMS_OF_SPLITS), self.s
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
        offsets = self._offsets(w, row, split)
        with w.loop(quotient_up(stop - start, w.tile), lanes=False) as tile:
            first = bind(e, "first", start + tile * w.tile)
            count = bind(e, "count", minimum(stop - first, w.tile))
            self._order(w, source + first, count, step)
            runs = self._find_runs(w, count)
            self._move_tile(w, (source + first, target, row * s.size), count, offsets, runs[0], last)
            with w.loop(VALUES) as d:
                w.store(offsets, d, w.load(offsets, d) + w.load(runs[1], d) - w.load(runs[0], d))
        e.append(Branch(moves, 1, (e.close(),)))
        return self._close(w, task, self.splits, dim(0))

    def _offsets(self, w: TileOrder, row: Dim, split: Dim) -> Buffer:
        """Where in the row the split's elements of each digit go."""
        scan = ExclusiveScan(w.e, int64)
        with w.loop(VALUES) as d:
            w.store(scan.sums, d, w.load(self.totals, row * VALUES + d))
        scan.scan()
        with w.loop(VALUES) as d:
            own = w.load(self.counts, (row * VALUES + d) * self.splits + split)
            w.store(scan.begins, d, w.load(scan.begins, d) + own)
        w.scratch += scan.scratch
        return scan.begins

    def _order(self, w: TileOrder, first: Dim, count: Dim, step: Dim) -> None:
        """Sort the items of a tile of ``count`` elements, whose keys begin at position ``first``."""
        keys = self.s.keys
        with w.loop(w.tile) as i:
            key = Load(keys.name, first + minimum(i, count - 1), keys.dtype)
            _set_digit(w, i, i, count, digit(self.s, key, step))
        w.sort()

    def _find_runs(self, w: TileOrder, count: Dim) -> tuple[Buffer, Buffer]:
        """Where the run of each digit starts and stops in a sorted tile; slot VALUES takes the stores of all others."""
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
        self, w: TileOrder, bases: tuple[Dim, Dim, Dim], count: Dim, offsets: Buffer, starts: Buffer, last: Dim
    ) -> None:
        """Scatter a sorted tile; ``bases`` are where it, the other half, and the row's results (last step) begin."""
        (first, target, result), s, e = bases, self.s, w.e
        with w.loop(count) as i:
            index, d = w.index(i), w.digit(i)
            at = w.put(Position(w.load(offsets, d) + i - w.load(starts, d)))
            e.open()
            e.append(Store(s.keys.name, target + at, Load(s.keys.name, first + index, s.keys.dtype)))
            if s.indices is not None:
                e.append(Store(s.indices.name, target + at, Load(s.indices.name, first + index, int64)))
            moved = e.close()
            e.open()
            own: Expr = Load(s.indices.name, first + index, int64) if s.indices else Position(index)
            _write(s, e, result + at, Load(s.keys.name, first + index, s.keys.dtype), own)
            e.append(Branch(last, 0, (moved, e.close())))

    def _close(self, w: OrderWriter, task: str, of_row: Dim, operations: Dim) -> Kernel:
        """The kernel of ``of_row`` tasks a row, on the buffers that it uses."""
        s, tasks = self.s, self.s.rows * of_row * self.wanted
        w.e.append(TaskLoop(task, tasks, None, (), w.e.close(), False))
        body, buffers = (*w.scratch, *w.e.close()), (*s.face.buffers, *s.moved, *self._own)
        cost = quotient_up(s.size, self.splits) * OPERATIONS
        made = Kernel("kernel", s.face.doc(), buffers, s.face.symbols, tasks, cost, body, operations=operations,
                      wide=False)  # fmt: skip
        return with_used_buffers(made)
