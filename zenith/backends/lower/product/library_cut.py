"""Where a product's group is cut for a library: what its epilogue writes, and what a kernel computes in addition.

A group may have more results than an epilogue has. The backward pass of gelu, say, multiplies a product by gelu's
derivative and recomputes gelu itself for the next product; the forward pass saves residuals. So a kernel computes the
results that do not follow from the product, and those that follow from what the library writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from zenith.backends.kernel import Kernel
from zenith.backends.lower.nest import tile_result
from zenith.backends.lower.pointwise.loops import lower_loops
from zenith.backends.lower.product.epilogue import Epilogue, find_epilogue
from zenith.backends.lower.subgraph import reached, subgraph_of
from zenith.backends.outputs import copy_graph
from zenith.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class EpilogueCut:
    """An epilogue, the numbers of the results that it writes (of two, first its argument), and those of the others.

    ``why`` says what prevents the library from writing more.
    """

    epilogue: Epilogue
    written: tuple[int, ...]
    rest: tuple[int, ...]
    why: str = ""


def cut(body: Graph) -> EpilogueCut | str:
    """The cut with the most results for the library, or why there is none."""
    tile, outputs = tile_result(body).node, body.outputs
    following = [i for i, v in enumerate(outputs) if tile in body.ancestors([v.node])]
    whys: list[str] = []
    for written in (*combinations(following, 2), *((i,) for i in following)):
        rest = tuple(i for i in range(len(outputs)) if i not in written)
        given = {outputs[i].node for i in written}
        if tile in reached(body, [outputs[i] for i in rest], given) or len({outputs[i].shape for i in rest}) > 1:
            continue
        found = find_epilogue(_with_outputs(body, written))
        if isinstance(found, Epilogue):
            return EpilogueCut(
                found, written, rest, whys[0] if whys else "some results do not follow from it" if rest else ""
            )
        whys.append(found)
    return whys[0] if whys else "several of its results need the product itself"


def _with_outputs(body: Graph, numbers: Sequence[int]) -> Graph:
    some = copy_graph(body)
    some.set_outputs([body.outputs[i] for i in numbers])
    return some


def kernel_from(body: Graph, given: Mapping[int, str], numbers: Sequence[int]) -> Kernel:
    """The kernel that computes some outputs of a body, where ``given`` nodes are in buffers."""
    graph = subgraph_of(body, given, [body.outputs[i] for i in numbers])
    (kernel,) = lower_loops(graph, [f"out{i}" for i in numbers])
    return kernel
