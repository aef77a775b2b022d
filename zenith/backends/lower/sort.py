"""Sorting: a row a task, by merging sorted runs of 1, 2, 4 ... elements, from one half of a buffer to the other.

Merge sort is stable, and its time depends on the size alone, but for how well branches are predicted: there are none
for the choice of an element. Elements travel with the places that they came from, which are the result.
"""

from __future__ import annotations

import re

from zenith.backends.kernel import Apply, Buffer, Kernel, Let, Loop, Position, Source, Store, TaskLoop
from zenith.backends.lower.elements import decode
from zenith.backends.lower.nest import Interface, bind
from zenith.ir.dims import dim, product, symbol
from zenith.ir.graph import Graph
from zenith.ir.ops.sort import OPERATIONS
from zenith.ir.types import DType, bool_, int32, int64

# A run [start, middle) and its neighbour [middle, stop) become one. An element of the neighbour goes first only where
# it is smaller: so equal elements keep their order.
MERGES = """\
width = 1
while width < count:
    start = 0
    while start < count:
        middle = start + width if start + width < count else count
        stop = middle + width if middle + width < count else count
        i = start
        j = middle
        for k in range(start, stop):
            left = keys[source + where(i < middle, i, start)]
            right = keys[source + where(j < stop, j, start)]
            smaller = SMALLER
            later = (j < stop) & ((i >= middle) | smaller)
            chosen = where(later, j, i)
            keys[target + k] = keys[source + chosen]
            places[target + k] = places[source + chosen]
            i = where(later, i, i + 1)
            j = where(later, j + 1, j)
        start = stop
    swapped = source
    source = target
    target = swapped
    width = 2 * width
for k in range(0, count):
    out[first + k] = places[source + k]"""
SMALLER = {"f": "(right < left) | ((left != left) & (right == right))"}  # nan is the largest
WORDS = ("width", "start", "middle", "stop", "i", "j", "k", "left", "right", "smaller", "later", "chosen", "swapped",
         "count", "source", "target", "first", "keys", "places")  # fmt: skip


def lower_sort(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the rows."""
    face = Interface.of(body)
    (x,) = body.args(body.outputs[0].node)
    *outer, size = x.shape
    rows = product(outer)
    e = face.builder()
    names = {word: e.fresh(word) for word in WORDS}
    keys = Buffer(names["keys"], int32 if x.dtype == bool_ else x.dtype, 2 * size * rows, "temporary")
    places = Buffer(names["places"], int64, 2 * size * rows, "temporary")
    row, i = e.fresh("row"), e.fresh("at")
    e.open(row)
    base = bind(e, "base", symbol(row) * size * 2)
    index = (*decode(symbol(row), outer), symbol(i))
    e.open(i)
    e.append(Store(keys.name, base + symbol(i), Apply("x", (e.element(x, index),), keys.dtype)))
    e.append(Store(places.name, base + symbol(i), Position(symbol(i))))
    e.append(Loop(i, dim(0), size, True, e.close()))
    starts = {"count": size, "source": base, "target": base + size, "first": symbol(row) * size}
    for word, at in starts.items():
        e.append(Let(names[word], Position(at)))
    e.append(Source(_merges(x.dtype, names | {"out": face.outputs[0]}), (keys.name, places.name, face.outputs[0])))
    e.append(TaskLoop(row, rows, None, (), e.close(), False))
    buffers = (*face.buffers, keys, places)
    return [Kernel("kernel", face.doc(), buffers, face.symbols, rows, size * OPERATIONS, e.close())]


def _merges(dtype: DType, names: dict[str, str]) -> str:
    """The merges of elements of a type, with the names that the kernel has for theirs."""
    text = MERGES.replace("SMALLER", SMALLER.get(dtype.kind, "right < left"))
    return re.sub(r"\b[a-z]+\b", lambda word: names.get(word.group(), word.group()), text)
