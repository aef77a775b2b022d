"""The k best elements of rows: few are kept while the others are passed by; of more, a sorted row has them in front.

Of a row, or a part of a long one, a task keeps the k best so far in order. Of most blocks of elements none is better
than the last that is kept, which their best one tells, found in vectors. Then the parts' best are merged in the same
way, in the order of the parts, so that of equal elements the first ones stay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zenith.backends.engines import Refusal
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
    Position,
    Scratch,
    Source,
    Statement,
    Store,
    TaskLoop,
)
from zenith.backends.lower.elements import ElementBuilder, decode
from zenith.backends.lower.nest import Interface, bind
from zenith.backends.lower.order.radix_sort import PART, renamed
from zenith.backends.lower.task_grid import quotient_up
from zenith.backends.memory_effects import buffers_of
from zenith.ir.dims import Dim, dim, maximum, minimum, product, symbol
from zenith.ir.graph import Graph, Node, Value
from zenith.ir.primitive import get
from zenith.ir.target import Target
from zenith.ir.types import BY_NAME, bool_, int32, int64

FEW = 64  # elements that are kept at most: of more, rows are sorted
BLOCK = 64  # elements that are passed by at once
MOST = 64  # parts of a row

# One element more: it goes behind all that are kept and no worse.
KEEP = """\
if (kept < MANY) | (word < worst):
    j = min(kept, MANY - 1)
    while j > 0 and words[j - 1] > word:
        words[j] = words[j - 1]
        places[j] = places[j - 1]
        j = j - 1
    words[j] = word
    places[j] = place
    kept = min(kept + 1, MANY)
    if kept == MANY:
        worst = words[MANY - 1]"""
_WORDS = (
    "kept",
    "worst",
    "word",
    "place",
    "words",
    "places",
    "j",
    "best",
    "hit",
    "found",
    "spots",
    "i",
    "last",
    "first",
)


def accepts_few(body: Graph, target: Target) -> float | Refusal:
    """Whether so few are wanted that keeping them takes less than sorting."""
    if target.threads is not None:
        return Refusal(f"{target.name} has threads that go in step")
    k = _node(body).params["k"].static
    return 0.5 if k is not None and k <= FEW else Refusal(f"more than {FEW} may be wanted: rows are sorted")


def _node(body: Graph) -> Node:
    return body.node(body.outputs[0].node)


# --- few are kept ----------------------------------------------------------------------------------------------------


def lower_few(body: Graph) -> list[Kernel]:
    """What each part keeps, then what each row does."""
    few = _Few(body)
    return [few.choose(), few.merge()]


class _Few:
    def __init__(self, body: Graph) -> None:
        self.body, self.face = body, Interface.of(body)
        (self.x,) = body.args(body.outputs[0].node)
        params = _node(body).params
        self.k, self.largest = int(params["k"].static), bool(params["largest"])
        self.size, self.rows = self.x.shape[-1], product(self.x.shape[:-1])
        self.parts = maximum(1, minimum(quotient_up(self.size, PART), MOST))
        self.key = int32 if self.x.dtype == bool_ else self.x.dtype
        self.word = BY_NAME[f"u{8 * self.key.itemsize}"]
        fresh, kept = self.face.builder().fresh, self.rows * self.parts * self.k
        self.found = Buffer(fresh("found"), self.word, kept, "temporary")
        self.spots = Buffer(fresh("spots"), int64, kept, "temporary")

    def choose(self) -> Kernel:
        """A part a task: block by block, of which it looks into those that have something better."""
        e, names = self._builder()
        task = e.fresh("item")
        e.open(task)
        many = bind(e, "many", self.parts)
        row, part = bind(e, "row", symbol(task) // many), bind(e, "part_of", symbol(task) % many)
        start, stop = (bind(e, stem, (part + k) * self.size // many) for stem, k in (("start", 0), ("stop", 1)))
        self._begin(e, names)
        block = e.fresh("block")
        e.open(block)
        first = bind(e, "first_of", start + symbol(block) * BLOCK)
        last = bind(e, "last_of", minimum(first + BLOCK, stop))
        self._best(e, names, row, first, last)
        self._look(e, names, row, first, last)
        e.append(Loop(block, dim(0), quotient_up(stop - start, BLOCK), False, e.close()))
        j = e.fresh("turn")
        stored = [
            Store(b.name, symbol(task) * self.k + symbol(j), Load(names[own], symbol(j), b.dtype))
            for b, own in ((self.found, "words"), (self.spots, "places"))
        ]
        e.append(Loop(j, dim(0), dim(self.k), True, tuple(stored)))
        tasks = self.rows * self.parts
        e.append(TaskLoop(task, tasks, None, (), e.close(), False))
        cost = quotient_up(self.size, self.parts) * 4
        return self._kernel(e, names, tasks, cost, None)

    def merge(self) -> Kernel:
        """A row a task: what its parts have kept, in their order, then the elements that stand there."""
        e, names = self._builder()
        row = e.fresh("row")
        e.open(row)
        self._begin(e, names)
        i, many = e.fresh("turn"), self.parts * self.k
        at = symbol(row) * many + symbol(i)
        taken = (
            Let(names["word"], Load(self.found.name, at, self.word)),
            Let(names["place"], Load(self.spots.name, at, int64)),
        )
        e.append(Loop(i, dim(0), many, False, (*taken, self._keep(names))))
        j = e.fresh("turn")
        e.open(j)
        e.append(Let(names["last"], Load(names["places"], symbol(j), int64)))
        e.level_of[names["last"]] = len(e.levels) - 1
        index = (*decode(symbol(row), self.x.shape[:-1]), symbol(names["last"]))
        for name, value in zip(self.face.outputs, self.body.outputs, strict=True):
            element = Name(names["last"], int64) if value.output else e.element(self.x, index)
            e.append(Store(name, symbol(row) * self.k + symbol(j), element))
        e.append(Loop(j, dim(0), dim(self.k), False, e.close()))
        e.append(TaskLoop(row, self.rows, None, (), e.close(), False))
        return self._kernel(e, names, self.rows, self.parts * (self.k * 4), dim(0))

    def _builder(self) -> tuple[ElementBuilder, dict[str, str]]:
        e = self.face.builder()
        e.taken |= {self.found.name, self.spots.name}
        return e, {word: e.fresh(word) for word in _WORDS}

    def _begin(self, e: ElementBuilder, names: dict[str, str]) -> None:
        """Nothing is kept."""
        e.append(Let(names["kept"], Position(dim(0))))
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
        """Go through a block if something in it is to be kept."""
        i = e.fresh("i")
        e.open(i)
        word = self._word(e, row, i)
        e.append(Let(names["word"], word))
        e.append(Let(names["place"], Position(symbol(i))))
        e.append(self._keep(names))
        inside = Loop(i, first, last, False, e.close())
        text = f"hit = 1 if (kept < {self.k}) | (best < worst) else 0"
        e.append(self._source(text, names))
        e.append(Branch(symbol(names["hit"]), 1, ((inside,),)))

    def _keep(self, names: dict[str, str]) -> Source:
        return self._source(KEEP.replace("MANY", str(self.k)), names)

    def _source(self, text: str, names: dict[str, str]) -> Source:
        return Source(renamed(text, names), ())

    def _kernel(
        self, e: ElementBuilder, names: dict[str, str], tasks: Dim, cost: Dim, operations: Dim | None
    ) -> Kernel:
        scratch = (Scratch(names["words"], self.word, self.k), Scratch(names["places"], int64, self.k))
        body: tuple[Statement, ...] = (*scratch, *e.close())
        used = buffers_of(body)
        buffers = tuple(b for b in (*self.face.buffers, self.found, self.spots) if b.name in used)
        return Kernel("kernel", self.face.doc(), buffers, self.face.symbols, tasks, cost, body, operations=operations)


# --- rows are sorted -------------------------------------------------------------------------------------------------


def lower_sorted(body: Graph, sort: Callable[[Graph, Interface], list[Kernel]]) -> list[Kernel]:
    """The kernels of a sort, which end in memory of their own, and the copy of what stands in front."""
    whole, face = _sorting(body), Interface.of(body)
    fresh, own = face.builder().fresh, Interface.of(whole)
    names = tuple(fresh("ordered_all") for _ in own.outputs)
    buffers = tuple(
        replace(b, name=names[own.outputs.index(b.name)], role="temporary") if b.role == "out" else b
        for b in own.buffers
    )
    kernels = sort(whole, replace(own, outputs=names, buffers=buffers))
    return [*kernels, _front(body, whole, face, names)]


def _sorting(body: Graph) -> Graph:
    """The same graph with whole rows in order."""
    result = Graph(body.name)
    values = dict[tuple[int, int], Value]()
    for number, node in body.nodes():
        args = tuple(values[a.node, a.output] for a in body.args(number))
        if node.primitive is get("input"):
            made: tuple[Value, ...] = (result.add_input(node.types[0], node.params["name"]),)
        elif node.primitive is get("top_k"):
            made = result.add(get("sort"), args, {"descending": node.params["largest"]}, node.line)
        else:
            made = result.add_record(node, args)
        values.update({(number, i): value for i, value in enumerate(made)})
    result.set_outputs(values[v.node, v.output] for v in body.outputs)
    return result


def _front(body: Graph, whole: Graph, face: Interface, names: tuple[str, ...]) -> Kernel:
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
