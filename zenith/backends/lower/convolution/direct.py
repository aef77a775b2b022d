"""Convolutions, and their gradients by weights, as they are defined: a sum of products a task, in plain loops.

They compute any element type on any target.
"""

from __future__ import annotations

from zenith.backends.expressions import Apply, Expr
from zenith.backends.kernel import Kernel
from zenith.backends.lower.loops import fold, task_loop
from zenith.backends.lower.nest import KernelInterface, bind, decode_into, scalar_cost, store_results, tile_result
from zenith.ir.dims import Dim, product
from zenith.ir.graph import Graph


def lower_direct_convolution(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the result's elements, neighbours of one block of channels."""
    face, result = KernelInterface.of(body), tile_result(body)
    params = body.node(result.node).params
    x, w = body.args(result.node)
    e, tasks = face.builder(), product(result.shape)
    with task_loop(e, tasks, "task") as task:
        example, group, block, *pixel, lane = index = tuple(decode_into(e, task, result.shape))

        def term(t: Dim) -> Expr:
            channels, *window, channel = decode_into(e, t, [x.shape[2], *params["window"], x.shape[-1]])
            steps = zip(pixel, params["strides"], window, params["dilation"], strict=True)
            left = e.element(x, (example, group, channels, *(p * s + k * d for p, s, k, d in steps), channel))
            right = e.element(w, (group, t, block * params["block"] + lane))
            factors = (Apply("x", (v,), result.dtype) if v.dtype != result.dtype else v for v in (left, right))
            return Apply("x * y", tuple(factors), result.dtype)

        e.known[result.node, 0] = fold(e, ("t", "total"), w.shape[1], 0, "x + y", term)
        store_results(e, face, index)
    return [face.kernel(tasks, w.shape[1] * 2 + scalar_cost(body), e)]


def lower_direct_weights(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the weights, each a sum over the pixels that it is multiplied with."""
    face, result = KernelInterface.of(body), tile_result(body)
    params = body.node(result.node).params
    x, y = body.args(result.node)
    e, tasks = face.builder(), product(result.shape)
    terms = [y.shape[0], *y.shape[3:-1]]
    with task_loop(e, tasks, "task") as task:
        group, row, output = index = tuple(decode_into(e, task, result.shape))
        channels, *window, channel = decode_into(e, row, [x.shape[2], *params["window"], x.shape[-1]])
        block, lane = bind(e, "block", output // y.shape[-1]), bind(e, "lane", output % y.shape[-1])

        def term(t: Dim) -> Expr:
            example, *pixel = decode_into(e, t, terms)
            steps = zip(pixel, params["strides"], window, params["dilation"], strict=True)
            left = e.element(x, (example, group, channels, *(p * s + k * d for p, s, k, d in steps), channel))
            right = e.element(y, (example, group, block, *pixel, lane))
            return Apply("x * y", (left, right), result.dtype)

        e.known[result.node, 0] = fold(e, ("t", "total"), product(terms), 0, "x + y", term)
        store_results(e, face, index)
    return [face.kernel(tasks, product(terms) * 2 + scalar_cost(body), e)]
