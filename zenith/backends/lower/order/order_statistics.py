"""Order statistics, the elements at ranks: short rows are sorted, and of longer ones the elements are selected.

What is sorted is a temporary, from which the elements at the ranks are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from zenith.backends.expressions import Load
from zenith.backends.kernel import Buffer, Kernel, Store, TaskLoop
from zenith.backends.lower.nest import KernelInterface, with_used_buffers
from zenith.backends.lower.order.batch_network import MOST as SHORT
from zenith.backends.lower.order.radix_select import checked_rank, lower_select
from zenith.backends.lower.order.sort import lower_short
from zenith.backends.lower.order.sorting import one_if_above
from zenith.backends.lower.order.top_k import as_sort
from zenith.backends.work import operations_of
from zenith.ir.dims import Dim, dim, product, symbol
from zenith.ir.graph import Graph


def lower_order_statistics(body: Graph) -> list[Kernel]:
    """The kernels of short rows and those of longer ones; sizes decide which have tasks."""
    face = KernelInterface.of(body)
    is_long = one_if_above(body.args(body.outputs[0].node)[0].shape[-1], SHORT)
    is_short = 1 - is_long
    kernels = (
        _sorted(body, lambda whole, own: lower_short(whole, own, is_short, SHORT), is_short) if is_long != 1 else []
    )
    return kernels + (lower_select(body, face, is_long) if is_long != 0 else [])


def lower_sorted_order_statistics(body: Graph, sort: Callable[[Graph, KernelInterface], list[Kernel]]) -> list[Kernel]:
    """The kernels of rows that are all sorted."""
    return _sorted(body, sort, dim(1))


def _sorted(body: Graph, sort: Callable[[Graph, KernelInterface], list[Kernel]], wanted: Dim) -> list[Kernel]:
    """The kernels of a sort, and the one that copies elements."""
    whole, face = as_sort(body), KernelInterface.of(body)
    own, name = KernelInterface.of(whole), face.builder().fresh("ordered_all")
    buffers = tuple(replace(b, name=name, role="temporary") if b.role == "out" else b for b in own.buffers)
    kernels = sort(whole, replace(own, outputs=(name,), buffers=buffers))
    made = [replace(with_used_buffers(kernel), operations=dim(0)) for kernel in kernels]
    return [*made, _copy(body, face, name, wanted)]


def _copy(body: Graph, face: KernelInterface, ordered: str, wanted: Dim) -> Kernel:
    """An element a task: copy it from its sorted row."""
    x, ranks = body.args(body.outputs[0].node)
    e, size, many = face.builder(), x.shape[-1], ranks.shape[0]
    e.taken.add(ordered)
    row, i = e.fresh("row"), e.fresh("i")
    e.open(row)
    e.open(i)
    element = Load(ordered, symbol(row) * size + checked_rank(body, e, symbol(i)), x.dtype)
    e.append(Store(face.outputs[0], symbol(row) * many + symbol(i), element))
    inside, before = e.close(), e.close()
    e.append(TaskLoop(i, many, row, before, inside, True))
    rows = product(x.shape[:-1])
    buffers = (*face.buffers, Buffer(ordered, x.dtype, rows * size, "in"))
    tasks, operations = rows * many * wanted, operations_of(body, [number for number, _ in body.nodes()]) * wanted
    made = Kernel("kernel", face.doc(), buffers, face.symbols, tasks, dim(2), e.close(), operations=operations)
    return with_used_buffers(made)
