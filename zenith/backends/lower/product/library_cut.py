"""Where a product's group is cut for a library: what its epilogue writes, and what a kernel computes besides.

A group may have more results than an epilogue has. The way back through gelu, say, multiplies a product by gelu's
derivative and computes gelu itself again for the next product; the way forward keeps what the way back reads. So the
results that do not follow from the product, and those that follow from what the library writes, are a kernel's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from zenith.backends.kernel import Kernel
from zenith.backends.lower.nest import tile_result
from zenith.backends.lower.pointwise.loops import lower_loops
from zenith.backends.lower.product.epilogue import Epilogue, find_epilogue
from zenith.backends.lower.subgraph import part_of, reached
from zenith.backends.outputs import copy_graph
from zenith.ir.graph import Graph


@dataclass(frozen=True, slots=True)
class Cut:
    """An epilogue, the numbers of the results that it writes (of two the first is what it keeps), and the others'.

    ``why`` says what kept the library from writing more.
    """

    epilogue: Epilogue
    written: tuple[int, ...]
    rest: tuple[int, ...]
    why: str = ""


def cut(body: Graph) -> Cut | str:
    """The cut with the most results for the library, or why there is none."""
    tile, outputs = tile_result(body).node, body.outputs
    behind = [i for i, v in enumerate(outputs) if tile in body.ancestors([v.node])]
    whys: list[str] = []
    for written in (*combinations(behind, 2), *((i,) for i in behind)):
        rest = tuple(i for i in range(len(outputs)) if i not in written)
        given = {outputs[i].node for i in written}
        if tile in reached(body, [outputs[i] for i in rest], given) or len({outputs[i].shape for i in rest}) > 1:
            continue
        found = find_epilogue(_with_outputs(body, written))
        if isinstance(found, Epilogue):
            return Cut(found, written, rest, whys[0] if whys else "some results do not follow from it" if rest else "")
        whys.append(found)
    return whys[0] if whys else "several of its results need the product itself"


def _with_outputs(body: Graph, numbers: Sequence[int]) -> Graph:
    some = copy_graph(body)
    some.set_outputs([body.outputs[i] for i in numbers])
    return some


def kernel_from(body: Graph, given: Mapping[int, str], numbers: Sequence[int]) -> Kernel:
    """The kernel that computes some outputs of a body, with nodes that stand in buffers as they are given."""
    part = part_of(body, given, [body.outputs[i] for i in numbers])
    (kernel,) = lower_loops(part, [f"out{i}" for i in numbers])
    return kernel
