"""A sorting network for rows of many blocks: chunks of a row are sorted by as many tasks, then merged.

What merges chunks compares vectors of several of them first, up to three levels a kernel, of which all tasks have a
share; the levels inside of a chunk are one kernel more. The number of chunks is filled up to a power of two, which is
less than twice as many: so many have memory and tasks, since there is no short formula for it.
"""

from __future__ import annotations

from zenith.backends.kernel import Buffer, Kernel, Scratch
from zenith.backends.lower.loops import Span, task_loop
from zenith.backends.lower.nest import bind, with_used_buffers
from zenith.backends.lower.order.network import BITONIC, Words, most_positions
from zenith.backends.lower.order.row_network import COST, FINISH, ROWS, RowNetwork
from zenith.backends.lower.order.sorting import Sorting, one_if_above
from zenith.backends.lower.order.written import indented, let
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum

CHUNK = 1 << 16  # elements: they are in the second level of the cache
LEVELS = 5  # merges of chunks, one after another

FILL = """\
for i in range(LANES * origin + count, LANES * (origin + span)):
    words[i] = WORD(LAST)"""
# Places beyond the power of two that has room for ``blocks`` chunks have none.
COMPARE = """\
full = 1
while full < blocks:
    full = 2 * full
if begin < full:
    merge_words(LANES, COUNT, MIRRORED, words, low, high, step, many)"""
FINISH_CHUNK = f"""\
low = origin
high = origin + span
span = i64(span)
{BITONIC}
for begin in range(low, high, rows):
{indented(FINISH)}"""


def longest(s: Sorting) -> int:
    """The most elements of rows that are sorted so; those of longer ones are moved digit by digit."""
    return min(CHUNK << LEVELS, most_positions(s))


def sort_in_chunks(s: Sorting, shorter: int) -> list[Kernel]:
    """The kernels of rows of more than ``shorter`` elements and at most ``longest``; without tasks for others."""
    return _Chunks(s, shorter).lower()


class _Chunks:
    """Rows as ``many`` chunks of ``vectors`` vectors, with as many empty places."""

    def __init__(self, s: Sorting, shorter: int) -> None:
        self.s, self.layout = s, Words.of(s, longest(s))
        self.wanted = self._if_above(shorter)
        self.vectors = CHUNK // self.layout.lanes
        self.many = quotient_up(s.size, CHUNK)
        self.places = self.many * 2
        name = s.builder().fresh("words")
        self.words = Buffer(name, self.layout.word, s.rows * self.places * CHUNK * self.wanted, "temporary")

    def _if_above(self, size: int) -> Dim:
        """1 where rows have more elements than that, and not too many, else 0."""
        return one_if_above(self.s.size, size) - one_if_above(self.s.size, longest(self.s))

    def lower(self) -> list[Kernel]:
        """Chunks are sorted, then merged two by two until they are the row, which is copied to the result."""
        kernels = [self._sort()]
        for level in range(1, LEVELS + 1):
            wanted = self._if_above(CHUNK << (level - 1))
            if wanted != 0:
                kernels += [*self._merge(level, wanted), self._finish(wanted)]
        return [*kernels, self._copy()]

    def _sort(self) -> Kernel:
        """A chunk a task: elements become words, which are sorted."""
        network, tasks, blocks = self._network(), self.s.rows * self.places * self.wanted, self.vectors // ROWS
        with task_loop(network.e, tasks, "item") as item:
            row, own = self._open(network, item, self.places)
            let(network.e, network.names, count=own.count, full=blocks, blocks=minimum(own.count, 1) * blocks)
            network.load(row, own)
            network.append(FILL)
            network.sort()
        return self._kernel(network, tasks, self.s.operations * self.wanted)

    def _merge(self, level: int, wanted: Dim) -> list[Kernel]:
        """The levels of a merge of two runs of ``2**(level - 1)`` chunks that compare vectors of different chunks."""
        first = (level - 1) % 3 + 1
        kernels = [self._compare(level, first, 2, wanted)]
        return kernels + [self._compare(left, 3, 0, wanted) for left in range(level - first, 0, -3)]

    def _compare(self, level: int, levels: int, mirrored: int, wanted: Dim) -> Kernel:
        """The first ``levels`` of merges of ``2**level`` chunks; a task has as many vectors as a chunk.

        Vectors of one comparison are ``2**(level - levels)`` chunks apart, of which a task has some of each.
        """
        network, tasks = self._network(), self.s.rows * self.places * wanted
        e, shares, own = network.e, 1 << level, self.vectors >> levels
        with task_loop(e, tasks, "item") as item:
            places = bind(e, "places", self.places)
            chunk = bind(e, "chunk", item % places)
            begin = bind(e, "start", (item // places * places + chunk // shares * shares) * self.vectors)
            first = bind(e, "share", chunk % shares * own)
            step = self.vectors << (level - levels)
            last = self.vectors * shares - 1 - first if mirrored else step * ((1 << levels) - 1) + first
            let(e, network.names, begin=chunk, blocks=self.many, low=begin + first, high=begin + last, step=step,
                many=own)  # fmt: skip
            network.append(COMPARE, COUNT=1 << levels, MIRRORED=mirrored)
        return self._kernel(network, tasks, dim(0))

    def _finish(self, wanted: Dim) -> Kernel:
        """A chunk a task: the levels of a merge that compare what is in it."""
        network, tasks = self._network(), self.s.rows * self.many * wanted
        with task_loop(network.e, tasks, "item") as item:
            self._open(network, item, self.many)
            levels = (self.vectors // ROWS).bit_length() - 1
            let(network.e, network.names, group=2 * self.layout.lanes, unit=ROWS, levels=levels)
            network.append(FINISH_CHUNK)
        return self._kernel(network, tasks, dim(0))

    def _copy(self) -> Kernel:
        """A chunk a task: words become elements."""
        network, tasks = self._network(), self.s.rows * self.many * self.wanted
        with task_loop(network.e, tasks, "item") as item:
            row, own = self._open(network, item, self.many)
            network.store(row, own, dim(ROWS))
        return self._kernel(network, tasks, dim(0), network.scratch("square", self.layout.lanes**2))

    def _network(self) -> RowNetwork:
        return RowNetwork.of(self.s, self.s.builder((self.words.name,)), longest(self.s), words=self.words.name)

    def _open(self, network: RowNetwork, item: Dim, places: Dim) -> tuple[Dim, Span]:
        """Begin the task of one of so many places of a row: its row, and its elements."""
        e, many = network.e, bind(network.e, "places", places)
        row, chunk = bind(e, "row", item // many), bind(e, "chunk", item % many)
        first = bind(e, "first", chunk * CHUNK)
        let(e, network.names, origin=(row * self.places + chunk) * self.vectors, span=self.vectors, rows=ROWS,
            depth=ROWS.bit_length() - 1)  # fmt: skip
        return row, Span(first, bind(e, "own", maximum(0, minimum(self.s.size - first, CHUNK))))

    def _kernel(self, network: RowNetwork, tasks: Dim, operations: Dim, *scratch: Scratch) -> Kernel:
        face, body = self.s.face, (*scratch, *network.e.close())
        made = Kernel("kernel", face.doc(), (*face.buffers, self.words), face.symbols, tasks, dim(CHUNK * COST), body,
                      operations=operations)  # fmt: skip
        return with_used_buffers(made)
