"""Attention by cuDNN: a group's attention as the library's problem, for one set of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from zenith.backends.cuda import cudnn
from zenith.backends.cuda.cudnn import ALIGNED, Problem, Tensor
from zenith.backends.cuda.driver import driver
from zenith.backends.kernel import Buffer
from zenith.backends.lower.library_attention import Attention, Heads, Placed, heads
from zenith.backends.routines import Ready, Routine, Use
from zenith.ir.dims import Dim, product

LARGEST, STEP = 256, 8  # elements of a query or a value: at most so many, and a multiple
STATE = 16  # bytes for each query, and some for all, in the workspace
SPARE = 1 << 20


def fits(size: int) -> bool:
    """Whether queries or values of a size can be had."""
    return 0 < size <= LARGEST and size % STEP == 0


def use(found: Attention, buffers: Sequence[Buffer]) -> Use:
    """The library's call for attention of a group."""
    names, workspace = [b.name for b in buffers], STATE * product(found.shape) + SPARE
    form = found.matrices["q"].dtype.name + (", causal" if found.causal else "")
    ready = partial(ready_attention, found, names, workspace)
    return Use(Routine(cudnn.NAME, "sdpa", form, ready=ready), tuple(buffers), found.operations, workspace)


def ready_attention(
    found: Attention, names: Sequence[str], workspace: Dim, sizes: Mapping[str, int], alignments: Sequence[int]
) -> Ready | str:
    """What calls the library for attention of these sizes; why it does not take them, as text."""
    flat = heads(found, sizes)
    if isinstance(flat, str):
        return flat
    if 0 in (flat.examples, flat.heads, flat.queries, flat.keys):
        return "it has no queries, or no keys"
    if not (fits(flat.size) and fits(flat.columns)):
        return f"sizes of queries and values are no multiples of {STEP} up to {LARGEST}"
    starts = {n: (names.index(a.buffer), a.at * a.dtype.itemsize) for n, a in flat.arrays.items()}
    if any(alignments[place] % ALIGNED or offset % ALIGNED for place, offset in starts.values()):
        return f"addresses are no multiples of {ALIGNED} bytes"
    made = cudnn.attention(_problem(found, flat), driver().device())
    if isinstance(made, str):
        return made
    if made.workspace > workspace.evaluate(sizes):
        return f"it needs {made.workspace} bytes to work in, more than are planned"
    return partial(_call, made, starts)


def _call(made: Any, starts: Mapping[str, tuple[int, int]], addresses: Sequence[int], stream: int) -> None:
    made({name: addresses[place] + offset for name, (place, offset) in starts.items()}, addresses[-1], stream)


def _problem(found: Attention, flat: Heads) -> Problem:
    shapes = {
        "q": (flat.queries, flat.size), "k": (flat.keys, flat.size), "v": (flat.keys, flat.columns),
        "o": (flat.queries, flat.columns), "stats": (flat.queries, 1),
    }  # fmt: skip
    made = {name: _tensor(array, flat, shapes[name]) for name, array in flat.arrays.items()}
    stats = made.get("stats")
    return Problem(made["q"], made["k"], made["v"], made["o"], stats, found.scale, found.causal)


def _tensor(array: Placed, flat: Heads, shape: tuple[int, int]) -> Tensor:
    """Heads that share keys are one head: their step is 0."""
    shared = flat.heads > 1 and array.steps[1] == 0
    return Tensor(array.dtype, (flat.examples, 1 if shared else flat.heads, *shape), array.steps)
