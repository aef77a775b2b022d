"""The k best elements of rows: one pass retains a few; for more of them, the row is sorted.

A task retains the k best elements so far, in order, of a row or of a split of a long one. Most blocks of elements have
none that is better than the last one retained, as their best element shows, which vectors find. Then the splits' best
are merged in the same way, in the order of the splits, so that of equal elements the first ones remain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zenith.backends.engines import Refusal
from zenith.backends.expressions import Apply, Expr, Load, Name, Number, Position
from zenith.backends.kernel import (
    Accumulator,
    Branch,
    Buffer,
    Fold,
    Kernel,
    Let,
    Loop,
    Scratch,
    Store,
    TaskLoop,
    UserCode,
)
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, with_used_buffers
from zenith.backends.lower.order.radix_sort import SPLIT
from zenith.backends.lower.order.written import renamed
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.target import Target
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.ir.types import BY_NAME, bool_, int32, int64

FEW = 64  # elements that are retained at most: for more, rows are sorted
BLOCK = 64  # elements that are skipped at once
MOST = 64  # splits of a row

# Insert an element: it goes after all retained ones that are not worse.
INSERT = """\
if (filled < MANY) | (word < worst):
    j = min(filled, MANY - 1)
    while j > 0 and words[j - 1] > word:
        words[j] = words[j - 1]
        indices[j] = indices[j - 1]
        j = j - 1
    words[j] = word
    indices[j] = index
    filled = min(filled + 1, MANY)
    if filled == MANY:
        worst = words[MANY - 1]"""
_WORDS = ("filled", "worst", "word", "index", "words", "indices", "j", "best", "hit", "found", "found_at", "i", "last",
          "first")  # fmt: skip


def accepts_few(body: Graph, target: Target) -> float | Refusal:
    """Whether k is so small that insertion takes less time than sorting."""
    if target.threads is not None:
        return Refusal(f"{target.name} has threads that go in step")
    k = _node(body).params["k"].static
    return 0.5 if k is not None and k <= FEW else Refusal(f"more than {FEW} may be wanted: rows are sorted")


def _node(body: Graph) -> Node:
    return body.node(body.outputs[0].node)


# --- few elements ----------------------------------------------------------------------------------------------------


def lower_few(body: Graph) -> list[Kernel]:
    """The kernel that selects from each split, and the one that merges a row's."""
    few = _Few(body)
    return [few.choose(), few.merge()]


class _Few:
    def __init__(self, body: Graph) -> None:
        self.body, self.face = body, KernelInterface.of(body)
        (self.x,) = body.args(body.outputs[0].node)
        params = _node(body).params
        self.k, self.largest = int(params["k"].static), bool(params["largest"])
        self.size, self.rows = self.x.shape[-1], product(self.x.shape[:-1])
        self.splits = maximum(1, minimum(quotient_up(self.size, SPLIT), MOST))
        self.key = int32 if self.x.dtype == bool_ else self.x.dtype
        self.word = BY_NAME[f"u{8 * self.key.itemsize}"]
        fresh, length = self.face.builder().fresh, self.rows * self.splits * self.k
        self.found = Buffer(fresh("found"), self.word, length, "temporary")
        self.indices = Buffer(fresh("found_at"), int64, length, "temporary")

    def choose(self) -> Kernel:
        """A split a task: it skips blocks that have no better element, and goes through the others."""
        (e, names), tasks = self._builder(), self.rows * self.splits
        with task_loop(e, tasks, "item") as task:
            many = bind(e, "many", self.splits)
            row, split = bind(e, "row", task // many), bind(e, "split_index", task % many)
            start, stop = (bind(e, stem, (split + k) * self.size // many) for stem, k in (("start", 0), ("stop", 1)))
            self._begin(e, names)
            with loop(e, "block", 0, quotient_up(stop - start, BLOCK)) as block:
                first = bind(e, "first_of", start + block * BLOCK)
                last = bind(e, "last_of", minimum(first + BLOCK, stop))
                self._best(e, names, row, first, last)
                self._look(e, names, row, first, last)
            with loop(e, "iteration", 0, self.k, lanes=True) as j:
                for b, own in ((self.found, "words"), (self.indices, "indices")):
                    e.append(Store(b.name, task * self.k + j, Load(names[own], j, b.dtype)))
        cost = quotient_up(self.size, self.splits) * 4
        return self._kernel(e, names, tasks, cost, None)

    def merge(self) -> Kernel:
        """A row a task: merge what its splits retain, in their order, then write the elements at these indices."""
        (e, names), many = self._builder(), self.splits * self.k
        with task_loop(e, self.rows, "row") as row:
            self._begin(e, names)
            with loop(e, "iteration", 0, many) as i:
                e.append(Let(names["word"], Load(self.found.name, row * many + i, self.word)))
                e.append(Let(names["index"], Load(self.indices.name, row * many + i, int64)))
                e.append(self._insert(names))
            with loop(e, "iteration", 0, self.k) as j:
                e.append(Let(names["last"], Load(names["indices"], j, int64)))
                e.level_of[names["last"]] = len(e.levels) - 1
                index = (*decode(row, self.x.shape[:-1]), symbol(names["last"]))
                for name, value in zip(self.face.outputs, self.body.outputs, strict=True):
                    element = Name(names["last"], int64) if value.output else e.element(self.x, index)
                    e.append(Store(name, row * self.k + j, element))
        return self._kernel(e, names, self.rows, self.splits * (self.k * 4), dim(0))

    def _builder(self) -> tuple[ElementBuilder, dict[str, str]]:
        e = self.face.builder()
        e.taken |= {self.found.name, self.indices.name}
        return e, {word: e.fresh(word) for word in _WORDS}

    def _begin(self, e: ElementBuilder, names: dict[str, str]) -> None:
        """Nothing is retained yet."""
        e.append(Let(names["filled"], Position(dim(0))))
        e.append(Let(names["worst"], Number(self._last, self.word)))

    @property
    def _last(self) -> int:
        return int(2 ** (8 * self.word.itemsize) - 1)

    def _word(self, e: ElementBuilder, row: Dim, i: str) -> Expr:
        """An integer that is smaller the better an element is."""
        element = e.element(self.x, (*decode(row, self.x.shape[:-1]), symbol(i)))
        text = "~ordered(x)" if self.largest else "ordered(x)"
        return e.let(Apply(text, (e.let(Apply("x", (element,), self.key)),), self.word))

    def _best(self, e: ElementBuilder, names: dict[str, str], row: Dim, first: Dim, last: Dim) -> None:
        """The best of a block."""
        i = e.fresh("i")
        e.open(i)
        word = self._word(e, row, i)
        best = Accumulator(names["best"], self.word, self._last, "minimum(x, y)", word)
        e.append(Fold(i, first, last, e.close(), (best,)))

    def _look(self, e: ElementBuilder, names: dict[str, str], row: Dim, first: Dim, last: Dim) -> None:
        """Go through a block if it has an element to retain."""
        i = e.fresh("i")
        e.open(i)
        word = self._word(e, row, i)
        e.append(Let(names["word"], word))
        e.append(Let(names["index"], Position(symbol(i))))
        e.append(self._insert(names))
        inside = Loop(i, first, last, False, e.close())
        text = f"hit = 1 if (filled < {self.k}) | (best < worst) else 0"
        e.append(self._source(text, names))
        e.append(Branch(symbol(names["hit"]), 1, ((inside,),)))

    def _insert(self, names: dict[str, str]) -> UserCode:
        return self._source(INSERT.replace("MANY", str(self.k)), names)

    def _source(self, text: str, names: dict[str, str]) -> UserCode:
        return UserCode(renamed(text, names), ())

    def _kernel(
        self, e: ElementBuilder, names: dict[str, str], tasks: Dim, cost: Dim, operations: Dim | None
    ) -> Kernel:
        scratch = (Scratch(names["words"], self.word, self.k), Scratch(names["indices"], int64, self.k))
        face, buffers = self.face, (*self.face.buffers, self.found, self.indices)
        body = (*scratch, *e.close())
        made = Kernel("kernel", face.doc(), buffers, face.symbols, tasks, cost, body, operations=operations)
        return with_used_buffers(made)


# --- rows are sorted -------------------------------------------------------------------------------------------------


def lower_sorted(body: Graph, sort: Callable[[Graph, KernelInterface], list[Kernel]]) -> list[Kernel]:
    """The kernels of a sort, whose results are temporaries, and the copy of the first k elements of each row."""
    whole, face = as_sort(body), KernelInterface.of(body)
    fresh, own = face.builder().fresh, KernelInterface.of(whole)
    names = tuple(fresh("ordered_all") for _ in own.outputs)
    buffers = tuple(
        replace(b, name=names[own.outputs.index(b.name)], role="temporary") if b.role == "out" else b
        for b in own.buffers
    )
    kernels = sort(whole, replace(own, outputs=names, buffers=buffers))
    return [*kernels, _front(body, whole, face, names)]


def as_sort(body: Graph) -> Graph:
    """The same graph with a sort of whole rows in place of the node that gives the results."""
    result = Graph(body.name)
    values = dict[tuple[int, int], Value]()
    for number, node in body.nodes():
        args = tuple(values[a.node, a.output] for a in body.args(number))
        if node.primitive is get("input"):
            made: tuple[Value, ...] = (result.add_input(node.types[0], node.params["name"]),)
        elif number == body.outputs[0].node:
            made = result.add(get("sort"), args[:1], {"descending": node.params.get("largest", False)}, node.line)
        else:
            made = result.add_record(node, args)
        values.update({(number, i): value for i, value in enumerate(made)})
    result.set_outputs(values[v.node, v.output] for v in body.outputs)
    return result


def _front(body: Graph, whole: Graph, face: KernelInterface, names: tuple[str, ...]) -> Kernel:
    """The kernel that copies the first elements of each row."""
    e = face.builder()
    e.taken |= {*names}
    row, i = e.fresh("row"), e.fresh("i")
    (*_, k), (*outer, size) = body.outputs[0].shape, whole.outputs[0].shape
    stores = tuple(
        Store(out, symbol(row) * k + symbol(i), Load(name, symbol(row) * size + symbol(i), value.dtype))
        for out, name, value in zip(face.outputs, names, body.outputs, strict=True)
    )
    tasks = product(outer) * k
    e.append(TaskLoop(i, k, row, (), stores, True))
    taken = tuple(Buffer(n, v.dtype, product(v.shape), "in") for n, v in zip(names, whole.outputs, strict=True))
    written = tuple(b for b in face.buffers if b.role == "out")
    return Kernel("kernel", face.doc(), (*taken, *written), face.symbols, tasks, dim(2), e.close(), operations=dim(0))
