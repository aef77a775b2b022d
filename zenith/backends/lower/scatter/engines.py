"""The engines for scatters."""

from __future__ import annotations

from zenith.backends.engines import Engine, Refusal, always, needs_threads
from zenith.backends.lower.scatter.atomic import lower_atomic_scatter
from zenith.backends.lower.scatter.in_order import lower_scatter, own_axes
from zenith.backends.lower.scatter.owner_computes import lower_owned_scatter
from zenith.backends.target import Target
from zenith.ir.graph import Graph
from zenith.ir.lowering import Scatter


def _searched(body: Graph, target: Target) -> float | Refusal:
    if own_axes(body):
        return Refusal("rows of the updates have result rows of their own, so no search is needed")
    return needs_threads(body, target)


def _by_atomics(body: Graph, target: Target) -> float | Refusal:
    dtype, lowering = body.outputs[0].dtype, body.node(body.outputs[0].node).primitive.lowering
    if not isinstance(lowering, Scatter) or lowering.combine != "x + y":
        return Refusal("there are atomic additions only")
    if not target.atomics:
        return Refusal("results have to repeat bit for bit; repeatable=False allows a GPU another order")
    return 0.25 if dtype in target.atomics else Refusal(f"{target.name} has no atomic addition of {dtype}")


ENGINES: tuple[Engine, ...] = (
    Engine("scatter", ("scatter",), "a scatter: an element of all updates a task, which joins them in index order", 0,
           always, lambda body, target, fixed: lower_scatter(body)),
    Engine("owned_scatter", ("scatter",), "a scatter: a range of result rows a task, which finds their updates", 0,
           _searched, lambda body, target, fixed: lower_owned_scatter(body, target.threads or 1)),
    Engine("atomic_scatter", ("scatter",), "a scatter in any order: an element of the updates a task", 0,
           _by_atomics, lambda body, target, fixed: lower_atomic_scatter(body)),
)  # fmt: skip
