"""Arguments that a graph changes, such as a cache of keys: their new contents are written in place.

AOTAutograd makes a graph without writes: the new contents are its first results, which it copies into the arguments
afterwards. A program that computes them from the argument by updates may write them in the argument's own memory
(:class:`zenith.backends.donation.Donation`), then nothing is copied: the result is the argument itself, and PyTorch
leaves a copy of a tensor to itself out. Where a program's steps still need what was there, the result has new memory
and is copied.

Two arguments that share memory, one of which is changed, are one argument of the graph: AOTAutograd sees to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from zenith.torch.checked import is_token
from zenith.torch.dynamo.ends import Argument, TensorArgument
from zenith.torch.dynamo.results import Made, Result, view_key
from zenith.torch.translate import returned


@dataclass(frozen=True, slots=True)
class Write:
    """A result of the graph that is the new contents of an argument.

    Attributes
    ----------
    result: its number among the graph's results. number: among the program's.
    argument: its index among the graph's arguments. leaf: among the program's.
    """

    result: int
    number: int
    argument: int
    leaf: int

    def give_back(
        self, found: list[object], made: Sequence[Any], leaves: Sequence[object], given: Sequence[Any]
    ) -> None:
        """Have the argument as the result where the program has written it."""
        leaf, argument = leaves[self.leaf], given[self.argument]
        if made[self.number] is leaf and leaf.data_ptr() == argument.data_ptr():
            found[self.result] = argument


def written_arguments(graph: torch.fx.GraphModule) -> dict[int, int]:
    """The arguments whose new contents are results of a graph of AOTAutograd's, by the results' numbers.

    Those whose sizes, strides or type change, too, are left out.
    """
    context = torch._guards.TracingContext.try_get()
    meta = None if context is None else context.fw_metadata
    inputs = graph.graph.find_nodes(op="placeholder")
    if meta is None or len(meta.input_info) != len(inputs) or any(map(is_token, inputs)):
        return {}
    outputs = returned(graph.graph)
    found = {}
    for number, index in enumerate(meta.mutated_inp_runtime_indices):
        about, output = meta.input_info[index], outputs[number]
        data_alone = about.mutates_data and not (about.mutates_metadata or about.mutates_storage_metadata)
        if data_alone and isinstance(output, torch.fx.Node) and view_key(output) == view_key(inputs[index]):
            found[number] = index
    return found


def in_place(
    results: Sequence[Result], takes: Sequence[tuple[int, Argument]], written: Mapping[int, int]
) -> list[Write]:
    """The writes that a program can do: of a result that is read once, in the argument's order of axes."""
    leaves = {index: leaf for leaf, (index, _) in enumerate(takes)}
    roots = [getattr(result, "root", result) for result in results]
    readers = Counter(root for root in roots if isinstance(root, Made))
    found = []
    for number, index in written.items():
        result, leaf = results[number], leaves.get(index)
        if isinstance(result, Made) and leaf is not None and readers[result] == 1:
            argument = takes[leaf][1]
            if isinstance(argument, TensorArgument) and argument.layout == result.layout:
                found.append(Write(number, result.number, index, leaf))
    return found
