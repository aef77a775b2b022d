"""Borders around computed results: a kernel writes these inside the border, which another kernel fills.

Otherwise results would be written once without the border, then read and copied inside it.
"""

from __future__ import annotations

from dataclasses import replace

from zenith.backends.kernel import Kernel, Store
from zenith.backends.lower.loops import loop, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, decode_into, inside, with_used_buffers
from zenith.ir.dims import Dim, dim, maximum, minimum, product
from zenith.ir.graph import Graph, Node, Value


def border_kernels(body: Graph) -> list[Kernel]:
    """A kernel that fills the border of each padded output of computed values."""
    face, found = KernelInterface.of(body), list[Kernel]()
    for name, value in zip(face.outputs, body.outputs, strict=True):
        node = body.node(value.node)
        if inside(body, value) is not None:
            found.append(_border(face, name, value, node))
    return found


def _border(face: KernelInterface, out: str, value: Value, node: Node) -> Kernel:
    """Task t fills the border of a row (of all axes up to the last one with a border): the whole row, or its ends."""
    low, high, shape = node.params["low"], node.params["high"], value.shape
    last = max((a for a in range(len(shape)) if low[a] != 0 or high[a] != 0), default=0)
    each = product(shape[last + 1 :])
    length = shape[last] * each
    body, e = face.body, face.builder()
    rows = product(shape[:last])
    with task_loop(e, rows) as t:
        inside = dim(1)
        for a, at in enumerate(decode_into(e, t, shape[:last])):
            if low[a] != 0 or high[a] != 0:
                inside = inside * _is_between(at, low[a], shape[a] - high[a])
        inside = bind(e, "is_inside", inside)
        ends = length - inside * (length - low[last] * each), length - inside * high[last] * each
        for start, stop in ((dim(0), ends[0]), (ends[1], length)):
            with loop(e, "i", start, stop, lanes=True) as i:
                e.append(Store(out, t * length + i, e.element(body.args(value.node)[1], ())))
    return with_used_buffers(replace(face.kernel(rows, 2 * length, e), doc="border", operations=dim(0)))


def _is_between(at: Dim, first: Dim, stop: Dim) -> Dim:
    """1 where ``first <= at < stop``, else 0."""
    return minimum(1, maximum(0, at - first + 1)) * minimum(1, maximum(0, stop - at))
