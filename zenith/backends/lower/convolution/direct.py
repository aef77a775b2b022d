"""Convolutions, and their gradients by weights, as they are defined: a sum of products a task, in plain loops.

They compute any element type on any target.
"""

from __future__ import annotations

from zenith.backends.kernel import Accumulator, Apply, Fold, Kernel, Name, TaskLoop
from zenith.backends.lower.nest import Interface, bind, decode_into, scalar_cost, store_results, tile_result
from zenith.ir.dims import dim, product, symbol
from zenith.ir.graph import Graph


def lower_direct_convolution(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the result's elements, neighbours of one block of channels."""
    face, result = Interface.of(body), tile_result(body)
    params = body.node(result.node).params
    x, w = body.args(result.node)
    e = face.builder()
    task, t, total = e.fresh("task"), e.fresh("t"), e.fresh("total")
    e.open(task)
    example, group, block, *pixel, lane = index = tuple(decode_into(e, symbol(task), result.shape))
    e.open(t)
    channels, *window, channel = decode_into(e, symbol(t), [x.shape[2], *params["window"], x.shape[-1]])
    steps = zip(pixel, params["strides"], window, params["dilation"], strict=True)
    left = e.element(x, (example, group, channels, *(p * s + k * d for p, s, k, d in steps), channel))
    right = e.element(w, (group, symbol(t), block * params["block"] + lane))
    term = Apply("x * y", (left, right), result.dtype)
    e.append(Fold(t, dim(0), w.shape[1], e.close(), (Accumulator(total, result.dtype, 0, "x + y", term),)))
    e.level_of[total] = len(e.levels) - 1
    e.known[result.node, 0] = Name(total, result.dtype)
    store_results(e, face, index)
    e.append(TaskLoop(task, product(result.shape), None, (), e.close(), False))
    return [face.kernel(product(result.shape), w.shape[1] * 2 + scalar_cost(body), e)]


def lower_direct_weights(body: Graph) -> list[Kernel]:
    """One kernel; its tasks are the weights, each a sum over the pixels that it is multiplied with."""
    face, result = Interface.of(body), tile_result(body)
    params = body.node(result.node).params
    x, y = body.args(result.node)
    e = face.builder()
    task, t, total = e.fresh("task"), e.fresh("t"), e.fresh("total")
    e.open(task)
    group, term, output = index = tuple(decode_into(e, symbol(task), result.shape))
    channels, *window, channel = decode_into(e, term, [x.shape[2], *params["window"], x.shape[-1]])
    block, lane = bind(e, "block", output // y.shape[-1]), bind(e, "lane", output % y.shape[-1])
    terms = [y.shape[0], *y.shape[3:-1]]
    e.open(t)
    example, *pixel = decode_into(e, symbol(t), terms)
    steps = zip(pixel, params["strides"], window, params["dilation"], strict=True)
    left = e.element(x, (example, group, channels, *(p * s + k * d for p, s, k, d in steps), channel))
    right = e.element(y, (example, group, block, *pixel, lane))
    product_of = Apply("x * y", (left, right), result.dtype)
    total_of = Accumulator(total, result.dtype, 0, "x + y", product_of)
    e.append(Fold(t, dim(0), product(terms), e.close(), (total_of,)))
    e.level_of[total] = len(e.levels) - 1
    e.known[result.node, 0] = Name(total, result.dtype)
    store_results(e, face, index)
    e.append(TaskLoop(task, product(result.shape), None, (), e.close(), False))
    return [face.kernel(product(result.shape), product(terms) * 2 + scalar_cost(body), e)]
