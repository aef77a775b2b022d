"""A forward or backward graph of AOTAutograd, as a Zenith program that takes and gives PyTorch's tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from zenith.api.devices import choose_for
from zenith.api.forms import Result
from zenith.api.inspection import Inspectable
from zenith.api.leaves import dtype_text, input_names
from zenith.api.programs import TracedProgram
from zenith.api.specialize import Request, Specializer
from zenith.arrays import adapter_for, torch_adapter
from zenith.errors import UnsupportedError
from zenith.ir.dims import Dim
from zenith.torch.calls import as_tensor
from zenith.torch.checked import is_token
from zenith.torch.dynamo.blocks import layout_of
from zenith.torch.dynamo.eager_graphs import NotCompiled
from zenith.torch.dynamo.ends import Argument, NumberArgument, TensorArgument, arguments_of, is_ragged, with_examples
from zenith.torch.dynamo.mutations import in_place
from zenith.torch.dynamo.options import Options
from zenith.torch.dynamo.ownership import Donated
from zenith.torch.dynamo.parameters import Instances, Parameters
from zenith.torch.dynamo.results import needs_sizes, results
from zenith.torch.python_numbers import as_number
from zenith.torch.sizes import Size, Sizes
from zenith.torch.steps import GraphSteps, Step
from zenith.torch.translate import evaluate
from zenith.torch.zero_points import known_zero_points
from zenith.trace import Recorder, Tracer, current_recorder, trace
from zenith.tree import unique

Values = dict[object, object]


class CompiledGraph(Inspectable):
    """A graph of PyTorch's, compiled when it is first called. Calls pass its arguments as a list.

    Attributes
    ----------
    steps: what PyTorch computes in the middle of its latest program.
    calls: how often it was called.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        name: str,
        options: Options,
        names: Sequence[str],
        static: Sequence[int] = (),
        written: Mapping[int, int] | None = None,
        donated: Sequence[int] = (),
    ) -> None:
        """``names`` has a name for every placeholder, and ``static`` the indices of those that are parameters.

        ``written`` maps the index of a result to that of the argument whose new contents it is, and ``donated`` has the
        indices of arguments whose memory is the program's where nobody else has them.
        """
        self.__name__ = name
        self._options, self._module, self._graph = options, module, with_examples(module.graph)
        # A program for each instance of a layer is as it should be, and of new graphs TorchDynamo itself warns.
        self._specializer = Specializer(name, None, options.numerics, warns=False)
        placeholders = self._graph.find_nodes(op="placeholder")
        indices = {node: index for index, node in enumerate(placeholders)}
        self._sizes = Sizes()
        arguments = arguments_of(self._graph, self._sizes)
        for argument in arguments.values():
            for name in _bound_by(argument):
                self._sizes.bind(name)
        changed = set((written or {}).values())
        self._static = [
            p for p in static if isinstance(arguments.get(placeholders[p]), TensorArgument) and p not in changed
        ]
        self._static_nodes = [placeholders[index] for index in self._static]
        names = unique(input_names(names), taken=[s for a in arguments.values() for s in _symbols(a)])
        self._instances = Instances([names[index] for index in self._static], self._specializer.forget)
        self._arguments = {n: a for n, a in arguments.items() if n not in self._static_nodes and not is_token(n)}
        self._takes = [(indices[node], argument) for node, argument in self._arguments.items()]
        self._names = [names[index] for index, _ in self._takes]
        self._results, self._made = results(self._graph, self._sizes)
        self._needs_sizes = needs_sizes(self._results)
        self._written = in_place(self._results, self._takes, written or {})
        self._donated = Donated(_positions(donated, self._takes))
        self.steps: list[Step] = []
        self.calls = 0

    def __call__(self, args: list[Any]) -> list[object]:
        """The graph's results; ``args`` is emptied, as AOTAutograd wants it."""
        self.calls += 1
        parameters = self._follow(args)
        key = None if parameters is None else parameters.key
        leaves: list[object] = [argument.leaf(args[index]) for index, argument in self._takes]
        sizes = self._size_values(args) if self._needs_sizes else {}
        given = args.copy()
        args.clear()
        for position in self._donated.positions:
            given[self._takes[position][0]] = None
        self._donated.take(leaves)
        made = self._specializer.find(key, leaves)
        if made is self._specializer:
            made = self._first(key, self._request(leaves, parameters), given)
        found = [result.of(given, made, sizes) for result in self._results]
        for write in self._written:
            write.give_back(found, made, leaves, given)
        return found

    def _first(self, key: int | None, request: Request, given: Sequence[object]) -> object:
        """The results of a program that is compiled for this call; NotCompiled where that fails."""
        try:
            made = self._specializer.obtain(key, request)
        except Warning:
            raise  # the user has warnings raised
        except Exception as error:
            raise NotCompiled(*self._whole(given, request.leaves)) from error
        sizes = made.bind(request.leaves)
        if sizes is None:  # the base of views, whose size TorchDynamo does not look at
            resized = UnsupportedError("an argument has another size than the graph says",
                                     fix="call it with tensors that share no memory")  # fmt: skip
            raise NotCompiled(*self._whole(given, request.leaves)) from resized
        return made.run(request.leaves, sizes)

    def _whole(self, given: Sequence[object], leaves: Sequence[Any]) -> list[object]:
        """The graph's arguments, those that were left to the program alone among them."""
        whole = list(given)
        for position in self._donated.positions:
            index, argument = self._takes[position]
            assert isinstance(argument, TensorArgument)
            whole[index] = argument.layout.in_torch_order(leaves[position])
        return whole

    def _size_values(self, args: Sequence[Any]) -> dict[str, int]:
        """The sizes of a call by their symbols."""
        found: dict[str, int] = {}
        for index, argument in self._takes:
            if isinstance(argument, TensorArgument):
                sizes = argument.layout.shape(argument.sizes)
                found.update(zip(map(str, sizes), argument.leaf(args[index]).shape, strict=True))
            elif isinstance(argument, Size):
                found[str(argument.symbol)] = abs(args[index])
        return self._sizes.with_computed(found)

    @property
    def operators(self) -> int:
        """How many operators of PyTorch the graph has."""
        return sum(n.op == "call_function" for n in self._graph.nodes)

    def _follow(self, args: Sequence[Any]) -> Parameters | None:
        """The parameters of the call's instance, updated for its programs where they changed."""
        if not self._static:
            return None
        tensors = [args[index] for index in self._static]
        parameters = self._instances.of(tensors)
        changed = parameters.follow(tensors)
        if changed is None:
            return self._instances.again(tensors)
        self._specializer.repacked += changed
        return parameters

    def _request(self, leaves: Sequence[object], parameters: Parameters | None) -> Request:
        arrays = [(name, adapter_for(leaf)) for name, leaf in zip(self._names, leaves, strict=True)]
        known = [(name, adapter) for name, adapter in arrays if adapter is not None]

        def describe() -> tuple[str, ...]:
            return tuple(f"{name}: {dtype_text(leaf)}" for name, leaf in zip(self._names, leaves, strict=True))

        where = choose_for(self._options.backend, known)
        written = {write.number: write.leaf for write in self._written}
        reusable = [self._names[position] for position in self._donated.reusable]
        return Request(
            leaves, lambda: self._build(leaves, parameters), describe, where, written=written, reusable=reusable
        )

    def _build(self, leaves: Sequence[Any], parameters: Parameters | None) -> TracedProgram:
        arguments = self._arguments
        specs = [a.spec(name, leaf) for a, name, leaf in zip(arguments.values(), self._names, leaves, strict=True)]
        steps: list[Step] = []

        def run(*tracers: Tracer) -> list[Any]:
            self._sizes.define_in(_recorder())
            values = self._values(dict(zip(arguments, tracers, strict=True)), parameters)
            evaluate(self._graph, values, GraphSteps(self._sizes, self._options.fallback, steps).rule_of)
            return [self._in_layout(node, values[node]) for node in self._made]

        with torch.no_grad():
            traced = trace(run, specs, self.__name__)
        self.steps = steps
        return TracedProgram(traced, Result(_tensors, _not_saved, _not_saved))

    def _in_layout(self, node: torch.fx.Node, value: Any) -> object:
        """A node's value as the program gives it: in the layout of its tensor."""
        return layout_of(node).to_memory_order(value) if isinstance(node.meta["val"], torch.Tensor) else value

    def _values(self, tracers: Mapping[torch.fx.Node, Tracer], parameters: Parameters | None) -> Values:
        """What the graph's placeholders and stored tensors are in the trace in progress."""
        recorder = _recorder()
        values = {} if parameters is None else self._weights(recorder, parameters)
        for node in self._graph.find_nodes(op="placeholder"):
            if node not in values:
                values[node] = self._placeholder(node, tracers, recorder)
        for node in self._graph.find_nodes(op="get_attr"):
            stored = getattr(self._module, node.target)
            values[node] = torch_adapter().numpy(stored.cpu()) if isinstance(stored, torch.Tensor) else stored
        return values

    def _weights(self, recorder: Recorder, parameters: Parameters) -> Values:
        table = recorder.graph.weights = parameters.table
        add = recorder.graph.add_weight
        found: Values = {}
        for node, (name, array) in zip(self._static_nodes, table.items(), strict=True):
            known = known_zero_points(node, table, name)
            found[node] = Tracer(recorder, add(name, array)) if known is None else known
        return found

    def _placeholder(self, node: torch.fx.Node, tracers: Mapping[torch.fx.Node, Tracer], recorder: Recorder) -> object:
        argument, value = self._arguments.get(node), node.meta.get("val")
        if isinstance(argument, TensorArgument):
            return argument.layout.from_memory_order(tracers[node])
        if isinstance(value, torch.SymInt) and not is_ragged(value):
            is_size = argument is None or isinstance(argument, Size)
            return as_number(self._sizes, value) if is_size else tracers[node]
        if isinstance(argument, NumberArgument):
            return tracers[node]
        return value


def _positions(donated: Sequence[int], takes: Sequence[tuple[int, Argument]]) -> list[int]:
    """The positions among a program's arguments of the tensors with these indices."""
    return [p for p, (index, argument) in enumerate(takes) if isinstance(argument, TensorArgument) and index in donated]


def _tensors(results: list[object]) -> list[torch.Tensor]:
    """A graph without arguments gives NumPy's arrays."""
    return list(map(as_tensor, results))


def _not_saved() -> object:
    raise AssertionError("programs of torch.compile are not saved")


def _recorder() -> Recorder:
    recorder = current_recorder()
    assert recorder is not None, "a graph runs under a trace"
    return recorder


def _symbols(argument: Argument) -> set[str]:
    """The symbols in an argument's sizes."""
    return {name for size in _sizes(argument) for name in size.symbols()}


def _bound_by(argument: Argument) -> set[str]:
    """The symbols that are sizes of an argument."""
    return {name for name in map(str, _sizes(argument)) if name.isidentifier()}


def _sizes(argument: Argument) -> tuple[Dim, ...]:
    if isinstance(argument, Size):
        return (argument.symbol,)
    return argument.sizes if isinstance(argument, TensorArgument) else ()
