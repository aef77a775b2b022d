"""Sorts on a CPU: which rows are sorted how. Where sizes are not known, they decide which kernels have tasks."""

from __future__ import annotations

from zenith.backends.kernel import Kernel
from zenith.backends.lower.nest import KernelInterface
from zenith.backends.lower.order import row_network, split_network
from zenith.backends.lower.order.batch_network import sort_batches, wants_batches
from zenith.backends.lower.order.radix_sort import SPLIT, RadixSorting, by_length, sort_rows
from zenith.backends.lower.order.sorting import Sorting, one_if_above
from zenith.backends.lower.order.split_radix_sort import sort_splits
from zenith.ir.dims import Dim
from zenith.ir.graph import Graph


def lower_sort(body: Graph, face: KernelInterface | None = None) -> list[Kernel]:
    """The kernels of short rows, in batches or a task each, and those of longer ones; results are those of ``face``."""
    s = Sorting(body, face)
    has_network = row_network.accepts(s)
    shorter = row_network.MOST if has_network else SPLIT
    longest = split_network.longest(s) if has_network else SPLIT
    above, far_above = one_if_above(s.size, shorter), one_if_above(s.size, longest)
    kernels = lower_short(body, face, 1 - above, shorter)
    kernels += split_network.sort_in_chunks(s, shorter) if above - far_above != 0 else []
    return kernels + (sort_splits(RadixSorting(body, face), far_above) if far_above != 0 else [])


def lower_short(body: Graph, face: KernelInterface | None, wanted: Dim, longest: int) -> list[Kernel]:
    """The kernels of rows of so many elements at most, where ``wanted`` is 1."""
    s = Sorting(body, face)
    many = wants_batches(s) * wanted
    single = wanted - many
    kernels = [sort_batches(s, many)] if many != 0 else []
    if single == 0:
        return kernels
    if row_network.accepts(s):
        return [*kernels, row_network.sort_in_lanes(s, single, longest)]
    return [*kernels, sort_rows(RadixSorting(body, face), single, by_length(s.size.static))]
