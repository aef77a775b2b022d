"""Stream compaction: splits of a row count their true elements, and write the indices of these behind each other.

A split's indices go through a block in the first level of the cache, where each index is stored, and the next one in
its place unless its element is true: no branch depends on elements.
"""

from __future__ import annotations

from zenith.backends.expressions import Apply, Expr, Load
from zenith.backends.kernel import Buffer, Kernel, Let, Scratch, Store
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.loops import Span, block_of, fold, loop, share_of, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, with_used_buffers
from zenith.backends.lower.order.written import let, written
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.types import DType, int32, int64

SPLIT = 1 << 15  # elements of a split
MOST = 64  # splits of a row: each adds up the counts of those before it
BLOCK = 256  # elements whose indices are copied together

STEP = """\
near[count] = index
count = count + flag"""
COPY = """\
kept = min(count, max(size - at, 0))
for j in range(0, kept):
    out[base + at + j] = near[j]
at = at + count"""
FILL = """\
if split == splits - 1:
    for j in range(min(at, size), size):
        out[base + j] = 0"""
_WORDS = ("at", "base", "count", "flag", "index", "j", "kept", "near", "size", "split", "splits")


def lower_true_indices(body: Graph) -> list[Kernel]:
    """The kernel that counts, and the one that writes indices."""
    made = _Compaction(body)
    return [made.count(), made.write()]


class _Compaction:
    """Rows of truth values, cut into splits."""

    def __init__(self, body: Graph) -> None:
        self.body, self.face = body, KernelInterface.of(body)
        (self.flags,) = body.args(body.outputs[0].node)
        self.length, self.rows = self.flags.shape[-1], product(self.flags.shape[:-1])
        self.splits = maximum(1, minimum(quotient_up(self.length, SPLIT), MOST))
        self.found = Buffer(self.face.builder().fresh("found"), int64, self.rows * self.splits, "temporary")

    def count(self) -> Kernel:
        """A split a task: count its true elements."""
        e = self._builder()
        with task_loop(e, self.rows * self.splits, "item") as task:
            row, _, own = self._split(e, task)
            total = fold(e, ("i", "count"), own.count, 0, "x + y", lambda i: self._flag(e, row, own.first + i, int32))
            e.append(Store(self.found.name, task, Apply("x", (total,), int64)))
        return self._kernel(e, (), operations_of(self.body, [number for number, _ in self.body.nodes()]))

    def write(self) -> Kernel:
        """A split a task: write the indices of its true elements behind those of the splits before it."""
        e = self._builder()
        names = {word: e.fresh(word) for word in _WORDS} | {"out": self.face.outputs[0]}
        (size,) = (value.shape[-1] for value in self.body.outputs)
        with task_loop(e, self.rows * self.splits, "item") as task:
            row, split, own = self._split(e, task)
            before = fold(e, ("k", "before"), split, 0, "x + y",
                          lambda k: Load(self.found.name, task - split + k, int64))  # fmt: skip
            let(e, names, at=symbol(before.name), base=row * size, size=size, split=split, splits=self.splits)
            with loop(e, "block", 0, quotient_up(own.count, BLOCK)) as number:
                block = block_of(e, ("begin", "many"), number, BLOCK, own.count)
                let(e, names, count=dim(0))
                with loop(e, "iteration", 0, block.count) as j:
                    index = bind(e, "position", own.first + block.first + j)
                    e.append(Let(names["flag"], self._flag(e, row, index, int64)))
                    let(e, names, index=index)
                    e.append(written(STEP, names))
                e.append(written(COPY, names))
            e.append(written(FILL, names))
        return self._kernel(e, (Scratch(names["near"], int64, BLOCK),), dim(0))

    def _builder(self) -> ElementBuilder:
        e = self.face.builder()
        e.taken.add(self.found.name)
        return e

    def _split(self, e: ElementBuilder, task: Dim) -> tuple[Dim, Dim, Span]:
        """A task's row, the number of its split there, and the elements of that."""
        many = bind(e, "many", self.splits)
        row, split = bind(e, "row", task // many), bind(e, "part", task % many)
        return row, split, share_of(e, ("start", "length"), split, many, self.length)

    def _flag(self, e: ElementBuilder, row: Dim, i: Dim, dtype: DType) -> Expr:
        """1 where an element is true, else 0."""
        return e.let(Apply("x", (e.element(self.flags, (*decode(row, self.flags.shape[:-1]), i)),), dtype))

    def _kernel(self, e: ElementBuilder, scratch: tuple[Scratch, ...], operations: Dim) -> Kernel:
        face, tasks = self.face, self.rows * self.splits
        cost = quotient_up(self.length, self.splits) * 2
        made = Kernel("kernel", face.doc(), (*face.buffers, self.found), face.symbols, tasks, cost,
                      (*scratch, *e.close()), operations=operations)  # fmt: skip
        return with_used_buffers(made)
