"""A sorting network for rows of many blocks: chunks of a row are sorted by as many tasks, then merged.

What merges chunks compares vectors of several of them first, up to three levels a kernel, of which all tasks have a
share; the levels inside of a chunk are one kernel more. The number of chunks is filled up to a power of two.
"""

from __future__ import annotations

from zenith.backends.kernel import Buffer, Kernel, Scratch
from zenith.backends.lower.loops import Span, task_loop
from zenith.backends.lower.nest import bind, with_used_buffers
from zenith.backends.lower.order.network_words import BITONIC, Words, indented, most_positions
from zenith.backends.lower.order.radix_sort import Sorting, one_if_above
from zenith.backends.lower.order.row_network import COST, FINISH, ROWS, RowNetwork
from zenith.backends.lower.order.written import let
from zenith.backends.lower.task_grid import quotient_up
from zenith.ir.dims import Dim, dim, maximum, minimum

SMALL = 1 << 13  # elements of a chunk, so few that all threads have some
LARGE = 1 << 16  # those of a long row: a chunk is in the second level of the cache
LEVELS = 8  # merges of chunks, one after another

FILL = """\
for i in range(LANES * origin + count, LANES * (origin + span)):
    words[i] = WORD(LAST)"""
MERGE = "merge_words(LANES, COUNT, MIRRORED, words, low, high, step, many)"
FINISH_CHUNK = f"""\
low = origin
high = origin + span
{BITONIC}
for begin in range(low, high, rows):
{indented(FINISH)}"""


def longest(s: Sorting) -> int:
    """The most elements of rows that are sorted so; those of longer ones are moved digit by digit."""
    return min(LARGE << LEVELS, most_positions(s))


def sort_in_chunks(s: Sorting, wanted: Dim) -> list[Kernel]:
    """The kernels of rows of at most ``longest`` elements, where ``wanted`` is 1; without tasks where it is 0."""
    return _Chunks(s, wanted).lower()


class _Chunks:
    """Rows as chunks of ``vectors`` vectors: ``many`` with elements, ``full`` is the power of two that has room."""

    def __init__(self, s: Sorting, wanted: Dim) -> None:
        self.s, self.wanted, self.layout = s, wanted, Words.of(s, longest(s))
        large = one_if_above(s.size, SMALL << LEVELS)
        self.length = SMALL + large * (LARGE - SMALL)
        self.vectors = self.length // self.layout.lanes
        blocks = SMALL // (ROWS * self.layout.lanes)
        self.levels = (blocks.bit_length() - 1) + large * ((LARGE // SMALL).bit_length() - 1)
        self.many = quotient_up(s.size, self.length)
        self.full = sum((one_if_above(self.many, 1 << k) * (1 << k) for k in range(LEVELS)), dim(1))
        name = s.builder().fresh("words")
        self.words = Buffer(name, self.layout.word, s.rows * self.full * self.length * wanted, "temporary")

    def lower(self) -> list[Kernel]:
        """Chunks are sorted, then merged two by two until they are the row, which is copied to the result."""
        kernels = [self._sort()]
        for level in range(1, LEVELS + 1):
            wanted = one_if_above(self.many, 1 << (level - 1)) * self.wanted
            if wanted != 0:
                kernels += [*self._merge(level, wanted), self._finish(wanted)]
        return [*kernels, self._copy()]

    def _sort(self) -> Kernel:
        """A chunk a task: elements become words, which are sorted."""
        network, tasks = self._network(), self.s.rows * self.full * self.wanted
        with task_loop(network.e, tasks, "item") as item:
            row, own = self._open(network, item, self.full)
            let(network.e, network.names, count=own.count, full=self.vectors // ROWS,
                blocks=minimum(own.count, 1) * (self.vectors // ROWS))  # fmt: skip
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
        network, tasks = self._network(), self.s.rows * self.full * wanted
        e, shares = network.e, 1 << level
        with task_loop(e, tasks, "item") as item:
            begin = bind(e, "start", item // shares * self.vectors * shares)
            share, own = bind(e, "share", item % shares), self.vectors // (1 << levels)
            step = self.vectors * (1 << (level - levels))
            high = self.vectors * shares - 1 - share * own if mirrored else step * ((1 << levels) - 1) + share * own
            let(e, network.names, low=begin + share * own, high=begin + high, step=step, many=own)
            network.append(MERGE, COUNT=1 << levels, MIRRORED=mirrored)
        return self._kernel(network, tasks, dim(0))

    def _finish(self, wanted: Dim) -> Kernel:
        """A chunk a task: the levels of a merge that compare what is in it."""
        network, tasks = self._network(), self.s.rows * self.many * wanted
        with task_loop(network.e, tasks, "item") as item:
            self._open(network, item, self.many)
            let(network.e, network.names, group=2 * self.layout.lanes, unit=ROWS, levels=self.levels)
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

    def _open(self, network: RowNetwork, item: Dim, chunks: Dim) -> tuple[Dim, Span]:
        """Begin the task of one of so many chunks of a row: its row, and its elements."""
        e, many = network.e, bind(network.e, "many", chunks)
        row, chunk = bind(e, "row", item // many), bind(e, "chunk", item % many)
        first = bind(e, "first", chunk * self.length)
        let(e, network.names, origin=(row * self.full + chunk) * self.vectors, span=self.vectors, rows=ROWS,
            depth=ROWS.bit_length() - 1)  # fmt: skip
        return row, Span(first, bind(e, "own", maximum(0, minimum(self.s.size - first, self.length))))

    def _kernel(self, network: RowNetwork, tasks: Dim, operations: Dim, *scratch: Scratch) -> Kernel:
        face, body = self.s.face, (*scratch, *network.e.close())
        made = Kernel("kernel", face.doc(), (*face.buffers, self.words), face.symbols, tasks, self.length * COST, body,
                      operations=operations)  # fmt: skip
        return with_used_buffers(made)
