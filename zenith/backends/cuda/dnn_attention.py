"""Attention by cuDNN: a group's attention as the library's problem, for one set of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from zenith.backends.cuda import cudnn
from zenith.backends.cuda.cudnn import ALIGNED, AttentionProblem, TensorDescriptor
from zenith.backends.cuda.driver import driver
from zenith.backends.kernel import Buffer
from zenith.backends.lower.attention.library import Attention, Heads, StridedArray, heads
from zenith.backends.routines import Ready, Routine, RoutineUse
from zenith.ir.dims import Dim, product

LARGEST, STEP = 256, 8  # elements of a query or a value: at most so many, and a multiple
STATE = 16  # bytes for each query, and some for all, in the workspace
SUMS = 4 * 2  # bytes for each element of queries in the backward pass: float32, two of them for a repeatable order
SPARE = 1 << 20


def fits(size: int) -> bool:
    """Whether the library takes queries or values of a size."""
    return 0 < size <= LARGEST and size % STEP == 0


def use(found: Attention, buffers: Sequence[Buffer], repeatable: bool) -> RoutineUse:
    """The library's call for attention of a group; ``repeatable`` asks for equal bits in every run."""
    names, queries = [b.name for b in buffers], product(found.shape)
    workspace: Dim = STATE * queries + SPARE + (SUMS * queries * found.size if found.is_backward else 0)
    form = found.matrices["q"].dtype.name + (", causal" if found.causal else "")
    ready = partial(ready_attention, found, names, workspace, repeatable)
    routine = Routine(cudnn.NAME, "sdpa_backward" if found.is_backward else "sdpa", form, ready=ready)
    return RoutineUse(routine, tuple(buffers), found.operations, workspace)


def ready_attention(
    found: Attention, names: Sequence[str], workspace: Dim, repeatable: bool, sizes: Mapping[str, int],
    alignments: Sequence[int],
) -> Ready | str:  # fmt: skip
    """A function that calls the library for attention of these sizes; why it does not take them, as text."""
    flat = heads(found, sizes)
    if isinstance(flat, str):
        return flat
    if 0 in (flat.examples, flat.heads, flat.queries, flat.keys):
        return "it has no queries, or no keys"
    if not (fits(flat.size) and fits(flat.columns)):
        return f"sizes of queries and values are no multiples of {STEP} up to {LARGEST}"
    starts = {n: (names.index(a.buffer), a.at * a.dtype.itemsize) for n, a in flat.arrays.items()}
    if any(alignments[index] % ALIGNED or offset % ALIGNED for index, offset in starts.values()):
        return f"addresses are no multiples of {ALIGNED} bytes"
    if found.is_backward and any(_is_shared(flat.arrays[name], flat) for name in "kv"):
        return "heads share keys, whose cotangents it would add up"
    made = cudnn.attention(_problem(found, flat, repeatable), driver().device())
    if isinstance(made, str):
        return made
    if made.workspace > workspace.evaluate(sizes):
        return f"it needs {made.workspace} bytes to work in, more than are planned"
    return partial(_call, made, starts)


def _call(made: Any, starts: Mapping[str, tuple[int, int]], addresses: Sequence[int], stream: int) -> None:
    made({name: addresses[index] + offset for name, (index, offset) in starts.items()}, addresses[-1], stream)


def _problem(found: Attention, flat: Heads, repeatable: bool) -> AttentionProblem:
    own, other = (flat.queries, flat.size), (flat.keys, flat.size)
    values, averages = (flat.keys, flat.columns), (flat.queries, flat.columns)
    shapes = {
        "q": own, "dq": own, "k": other, "dk": other, "v": values, "dv": values, "o": averages, "do": averages,
        "stats": (flat.queries, 1),
    }  # fmt: skip
    made = tuple((name, _tensor(array, flat, shapes[name])) for name, array in flat.arrays.items())
    return AttentionProblem(made, found.scale, found.causal, repeatable or not found.is_backward)


def _tensor(array: StridedArray, flat: Heads, shape: tuple[int, int]) -> TensorDescriptor:
    """The library's tensor of an array; heads that share keys are one head."""
    heads = 1 if _is_shared(array, flat) else flat.heads
    return TensorDescriptor(array.dtype, (flat.examples, heads, *shape), array.steps)


def _is_shared(array: StridedArray, flat: Heads) -> bool:
    """Whether all heads of an example read the same elements (stride 0)."""
    return flat.heads > 1 and array.steps[1] == 0
