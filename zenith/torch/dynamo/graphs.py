"""One graph of AOTAutograd, a way forward or back, as a Zenith program that takes and gives PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

import zenith.numpy as znp
from zenith.api.devices import choose_for
from zenith.api.forms import Result
from zenith.api.inspection import Inspectable
from zenith.api.leaves import dtype_text
from zenith.api.specialize import Program, Request, Specializer
from zenith.arrays import adapter_for, torch_adapter
from zenith.ir.target import Numerics
from zenith.torch.dynamo.ends import Argument, Order, Size, Sizes, Tensor, arguments_of, axis_order, inverse, is_natural
from zenith.torch.dynamo.steps import is_token, rule_of
from zenith.torch.translate import results_of
from zenith.trace import Tracer, trace
from zenith.trace.sizes import user_size
from zenith.tree import unique


@dataclass(frozen=True, slots=True)
class _Given:
    """A result that is an argument, as it was given."""

    place: int


@dataclass(frozen=True, slots=True)
class _Plain:
    """A result that no call changes, such as None."""

    value: Any


@dataclass(frozen=True, slots=True)
class _Made:
    """A result of the program: its number there, the order of its axes in memory, whether it is a size."""

    number: int
    order: Order
    is_size: bool = False


class CompiledGraph(Inspectable):
    """A graph of PyTorch's that is compiled when it is first called. Calls give its arguments as a list.

    ``step`` computes what there is no rule for.
    """

    def __init__(self, module: torch.fx.GraphModule, name: str, numerics: Numerics, backend: str | None) -> None:
        self.__name__ = name
        self._backend = backend
        self._specializer = Specializer(backend, name, None, numerics)
        self._graph, self._sizes = module.graph, Sizes()
        self._module = module
        self._arguments = {n: a for n, a in arguments_of(self._graph, self._sizes).items() if not is_token(n)}
        places = {node: place for place, node in enumerate(self._graph.find_nodes(op="placeholder"))}
        self._takes = [(places[node], argument) for node, argument in self._arguments.items()]
        self._results = _results(self._graph, places)

    def __call__(self, args: list[Any]) -> list[Any]:
        """The graph's results; ``args`` is emptied, so that what it alone holds can be let go."""
        leaves = [argument.leaf(args[place]) for place, argument in self._takes]
        given = [args[r.place] if type(r) is _Given else None for r in self._results]
        args.clear()
        made = self._specializer.find(None, leaves)
        if made is self._specializer:
            made = self._specializer.make(None, self._request(leaves))
        return [
            self._tensor(result, made) if type(result) is _Made else g if type(result) is _Given else result.value
            for result, g in zip(self._results, given, strict=True)
        ]

    def _tensor(self, result: _Made, made: Sequence[Any]) -> Any:
        found = made[result.number]
        if result.is_size:
            return int(found)
        if not isinstance(found, torch.Tensor):  # of a graph without tensors among its arguments
            found = torch_adapter().from_numpy(found)
        return found if is_natural(result.order) else found.permute(inverse(result.order))

    def _request(self, leaves: Sequence[Any]) -> Request:
        adapters = [(name, adapter_for(leaf)) for name, leaf in zip(self._names, leaves, strict=True)]
        arrays = [(name, adapter) for name, adapter in adapters if adapter is not None]

        def describe() -> tuple[str, ...]:
            return tuple(f"{name}: {dtype_text(leaf)}" for name, leaf in zip(self._names, leaves, strict=True))

        return Request(leaves, lambda: self._build(leaves), describe, choose_for(self._backend, arrays))

    @cached_property
    def _names(self) -> list[str]:
        symbols = {name for a in self._arguments.values() for size in _sizes_of(a) for name in size.symbols()}
        return unique([node.name for node in self._arguments], taken=symbols)

    def _build(self, leaves: Sequence[Any]) -> Program:
        arguments = self._arguments
        specs = [a.spec(name, leaf) for a, name, leaf in zip(arguments.values(), self._names, leaves, strict=True)]

        def run(*tracers: Tracer) -> list[Any]:
            values = self._values(dict(zip(arguments, tracers, strict=True)))
            results = results_of(self._graph, values, lambda node: rule_of(node, self._sizes))
            made: dict[int, Any] = {}
            for result, value in zip(self._results, results, strict=True):
                if isinstance(result, _Made):
                    made[result.number] = value if result.is_size else znp.transpose(value, result.order)
            return [made[number] for number in range(len(made))]

        with torch.no_grad():
            traced = trace(run, specs, self.__name__)
        return Program(traced, Result(list, _not_saved, _not_saved))

    def _values(self, tracers: dict[torch.fx.Node, Tracer]) -> dict[Any, Any]:
        """What the graph's placeholders and stored tensors are in the trace in progress."""
        values: dict[Any, Any] = {}
        recorder = next(iter(tracers.values())).recorder if tracers else None
        for node in self._graph.find_nodes(op="placeholder"):
            argument = self._arguments.get(node)
            if isinstance(argument, Tensor):
                values[node] = znp.transpose(tracers[node], inverse(argument.order))
            elif isinstance(node.meta.get("val"), torch.SymInt):
                number = argument is not None and not isinstance(argument, Size)
                values[node] = tracers[node] if number else user_size(self._sizes.of(node.meta["val"]), recorder)
            else:
                values[node] = node.meta.get("val")
        for node in self._graph.find_nodes(op="get_attr"):
            values[node] = adapter_for(getattr(self._module, node.target)).numpy(getattr(self._module, node.target))
        return values


def _not_saved() -> Any:
    raise AssertionError("programs of torch.compile are not saved")


def _sizes_of(argument: Argument) -> Sequence[Any]:
    if isinstance(argument, Tensor):
        return argument.sizes
    return [argument.symbol] if isinstance(argument, Size) else []


def _results(graph: torch.fx.Graph, places: dict[torch.fx.Node, int]) -> list[_Given | _Plain | _Made]:
    """How each result comes about; what is returned twice is computed once."""
    numbers: dict[torch.fx.Node, int] = {}
    found: list[_Given | _Plain | _Made] = []
    for node in graph.output_node().args[0]:
        if not isinstance(node, torch.fx.Node) or node.meta.get("val") is None or is_token(node):
            found.append(_Plain(node if not isinstance(node, torch.fx.Node) else None))
        elif node in places:
            found.append(_Given(places[node]))
        else:
            number, value = numbers.setdefault(node, len(numbers)), node.meta["val"]
            tensor = isinstance(value, torch.Tensor)
            found.append(_Made(number, axis_order(value) if tensor else (), not tensor))
    return found
