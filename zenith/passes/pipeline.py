"""The pipeline: one visible tuple of passes, timed, and verified before and after in debug mode.

>>> from zenith.ir.text import parse
>>> graph, reports = run(parse("def f(x: f32[n]) -> (f32[n]):\\n    v1 = neg(x)\\n    v2 = neg(v1)\\n    return (v2,)"))
>>> print(graph)
def f(x: f32[n]) -> (f32[n]):
    return (x,)
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from zenith.config import config
from zenith.errors import VerifyError
from zenith.ir.graph import Graph
from zenith.ir.types import DType
from zenith.ir.verify import verify
from zenith.passes.attention import attention
from zenith.passes.channels_last import channels_last
from zenith.passes.cropped import cropped
from zenith.passes.cse import cse
from zenith.passes.dce import dce
from zenith.passes.dequantized_products import dequantized_products
from zenith.passes.expand import expand, expand_tiles
from zenith.passes.fold import fold
from zenith.passes.fuse import fuse, fuse_without_bytes
from zenith.passes.horizontal_fusion import horizontal_fusion
from zenith.passes.integer_products import integer_products
from zenith.passes.joined_borders import joined_borders
from zenith.passes.matrix_vector_products import matrix_vector_products
from zenith.passes.movement import movement
from zenith.passes.precision import precision
from zenith.passes.precompute import precompute
from zenith.passes.producer_duplication import producer_duplication
from zenith.passes.prune import prune
from zenith.passes.rounded_convolutions import rounded_convolutions
from zenith.passes.rounded_products import rounded_products
from zenith.passes.scaled_products import all_scaled_products, scaled_products
from zenith.passes.selection import selection
from zenith.passes.simplify import simplify
from zenith.passes.slices_of_views import slices_of_views
from zenith.passes.small_windows import small_windows
from zenith.passes.split_complex import split_complex
from zenith.passes.split_reductions import split_reductions
from zenith.passes.transposed_products import transposed_products
from zenith.passes.updates import updates
from zenith.passes.wide_sorts import wide_sorts
from zenith.passes.widenings import widenings
from zenith.progress import current

Pass = Callable[[Graph], Graph]
log = logging.getLogger("zenith.passes")

# Common subexpressions come first, since rules know a repeated operand by its node. Movement brings literals together
# on small shapes, so fold and simplify run a second time after it; and attention's transposes are moved once more.
# Products leave loops before it, so that it makes one matrix product of those of all steps, and updates of views become
# updates of arrays before it, so that it cancels double transposes. Products of dequantised bytes become integer ones
# before these become products of bytes.
PIPELINE: tuple[Pass, ...] = (
    precision,
    scaled_products,
    dequantized_products,
    integer_products,
    dce,
    cropped,
    expand,
    split_complex,
    dce,
    cse,
    fold,
    simplify,
    prune,
    precompute,
    transposed_products,
    updates,
    small_windows,
    movement,
    dce,
    cse,
    fold,
    simplify,
    attention,
    movement,
    horizontal_fusion,
    matrix_vector_products,
    selection,
    wide_sorts,
    slices_of_views,
    joined_borders,
    split_reductions,
    widenings,
    cse,
    dce,
    producer_duplication,
    fuse,
)


class Kernels(Protocol):
    """What passes know of a target's kernels: the layout of convolutions, how special products are computed."""

    @property
    def channels_last(self) -> bool: ...

    @property
    def reduces_vectors(self) -> bool: ...

    @property
    def sequential(self) -> bool: ...

    @property
    def multiplies_bytes(self) -> bool: ...

    @property
    def rounds_to(self) -> DType | None: ...


def passes_for(target: Kernels) -> tuple[Pass, ...]:
    """The passes of a target: its layout of convolutions, and the forms of products that its kernels compute."""
    unused = set[Pass]() if target.reduces_vectors else {matrix_vector_products}
    unused |= set[Pass]() if target.sequential else {wide_sorts}
    unused |= set[Pass]() if target.multiplies_bytes else {dequantized_products, integer_products}
    found = [p for p in PIPELINE if p not in unused]
    if not target.multiplies_bytes:
        found[found.index(fuse)] = fuse_without_bytes
        found[found.index(scaled_products)] = all_scaled_products
    if target.rounds_to is not None:
        found.insert(found.index(expand), rounded_convolutions(target.rounds_to))
        found.insert(found.index(slices_of_views), rounded_products(target.rounds_to))
    if target.channels_last:
        found.insert(found.index(expand), channels_last)
    if not target.sequential:
        found[found.index(expand)] = expand_tiles
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PassReport:
    """What one pass did: its time in milliseconds and the number of nodes before and after."""

    name: str
    milliseconds: float
    before: int
    after: int

    def __str__(self) -> str:
        return f"{self.name:<18} {self.milliseconds:8.2f} ms  {self.before} -> {self.after} nodes"


def run(
    graph: Graph, passes: Sequence[Pass] = PIPELINE, debug: bool | None = None, disabled: Collection[str] = ()
) -> tuple[Graph, list[PassReport]]:
    """The graph after all passes, and a report on each.

    ``debug`` verifies the graph before the first and after every pass; ``zenith.config`` decides when it is not
    given. ``disabled`` names passes to leave out. Raises
    :class:`~zenith.errors.VerifyError` naming the pass that broke the graph.
    """
    checking = config.debug if debug is None else debug
    unknown = set(disabled) - {p.__name__ for p in passes}
    if unknown:
        raise ValueError(f"no such pass: {', '.join(sorted(unknown))}")
    if checking:
        verify(graph)
    reports: list[PassReport] = []
    work = current()
    work.begin("passes", len(passes))
    for step in passes:
        if step.__name__ in disabled:
            continue
        before, start = len(graph), time.perf_counter()
        graph = step(graph)
        elapsed = (time.perf_counter() - start) * 1e3
        reports.append(PassReport(step.__name__, elapsed, before, len(graph)))
        log.debug("%s: %s", graph.name, reports[-1])
        work.advance()
        if checking:
            verify_after(step.__name__, graph)
    return graph, reports


def verify_after(name: str, graph: Graph) -> None:
    """Verify what a pass made; the error names the pass."""
    try:
        verify(graph)
    except VerifyError as error:
        raise VerifyError(
            f"pass {name} made a malformed graph: {error.what}", where=error.where, types=error.types
        ) from error
