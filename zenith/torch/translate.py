"""From an exported program to a traced function: each ATen node is one rule of :mod:`zenith.torch.aten`.

Weights enter by name and reference, without a copy; tensors that the module's code made are constants. Every rule runs
at the module's own source line, so that graph nodes, messages and kernels show the line of the user's model.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from zenith.arrays import adapter_for
from zenith.errors import UnsupportedError, user_line
from zenith.torch import aten, python_numbers
from zenith.torch.asserts import is_assert, with_asserts
from zenith.torch.draws import draws_numbers, rules_of
from zenith.torch.lines import at_line, line_of
from zenith.torch.unexportable import first_of_unknown_size
from zenith.torch.weights import Weights
from zenith.torch.zero_points import known_zero_points
from zenith.trace import Recorder, Tracer, current_recorder

Find = Callable[[torch.fx.Node], "aten.Rule | None"]


def check_supported(program: torch.export.ExportedProgram, name: str) -> None:
    """One UnsupportedError that lists every operator without a rule, with counts."""
    calls = [n for n in program.graph.nodes if n.op == "call_function" and not (draws_numbers(n) or is_assert(n))]
    without_rule = [n for n in calls if aten.find(n.target) is None and not python_numbers.is_known(n)]
    unknown = first_of_unknown_size(program.graph) if without_rule else None
    affected = set() if unknown is None else _descendants(program.graph, unknown)
    missing = Counter(n.target for n in without_rule if n not in affected)
    if unknown is not None and not missing:
        why, fix = aten.reason_of(unknown.target) or aten.SHAPES
        raise UnsupportedError(f"{name}: {unknown.target}: {why}", where=line_of(unknown), fix=fix)
    if unknown is not None:
        missing[unknown.target] += 1
    if missing:
        known = {str(target): aten.reason_of(target) for target in missing}
        counts = sorted((str(target), count) for target, count in missing.items())
        raise UnsupportedError(
            f"{name} uses operators of PyTorch that Zenith does not compute: "
            + ", ".join(f"{target} ({count} times{_because(known[target])})" for target, count in counts),
            where=next(line_of(n) for n in calls if n.target in missing),
            fix="; ".join(dict.fromkeys(why[1] for why in known.values() if why is not None))
            or 'call torch.compile(module, backend="zenith"), which has PyTorch compute them; rewrite these parts of '
            "the module; or add a rule for each below zenith/torch/aten/",
        )


def _descendants(graph: torch.fx.Graph, first: torch.fx.Node) -> set[torch.fx.Node]:
    """A node, and all that follow from it."""
    found = {first}
    for node in graph.nodes:
        if any(argument in found for argument in node.all_input_nodes):
            found.add(node)
    return found


def check_dense(program: torch.export.ExportedProgram, weights: Weights) -> None:
    """UnsupportedError where a table that is trained is asked for a sparse gradient."""
    specs = zip(program.graph.find_nodes(op="placeholder"), program.graph_signature.input_specs, strict=True)
    trained = {n for n, spec in specs if spec.target is not None and _is_trained(weights, spec.target)}
    for node in program.graph.nodes:
        if node.op == "call_function" and _asks_for_sparse(node) and node.args[0] in trained:
            raise UnsupportedError(
                f"{node.target} is asked for a sparse gradient, and programs give dense ones", where=line_of(node),
                fix='leave out sparse=True, or use torch.compile(module, backend="zenith")',
            )  # fmt: skip


def _is_trained(weights: Weights, target: str) -> bool:
    tensor = weights.tensors.get(target)
    return tensor is not None and tensor.requires_grad


def _asks_for_sparse(node: torch.fx.Node) -> bool:
    schema: Any = getattr(node.target, "_schema", None)
    names = [] if schema is None else [argument.name for argument in schema.arguments]
    if "sparse" not in names:
        return False
    index = names.index("sparse")
    return bool(node.args[index] if index < len(node.args) else node.kwargs.get("sparse", False))


def _because(reason: tuple[str, str] | None) -> str:
    return "" if reason is None else f": {reason[0]}"


def translate(program: torch.export.ExportedProgram, weights: Weights,
              variables: Sequence[str] = ()) -> Callable[..., list[object]]:  # fmt: skip
    """A function from the call's tensors, traced, to the flat results (arrays, sizes, numbers and None).

    The weights named by ``variables`` come as arguments, too, before the tensors.
    """

    def run(*given: Tracer) -> list[object]:
        recorder = current_recorder()
        assert recorder is not None, "a translated module runs under a trace"
        known, tensors = dict(zip(variables, given, strict=False)), given[len(variables) :]
        values = _inputs(program, weights, known, tensors, recorder)
        evaluate(program.graph, values, rules_of(program, tensors))
        results = [_known(values[v]) if isinstance(v, torch.fx.Node) else v for v in returned(program.graph)]
        return with_asserts(program.graph, values, results)

    return run


def returned(graph: torch.fx.Graph) -> Sequence[Any]:
    """What a graph returns: nodes and plain values."""
    results: Any = graph.output_node().args[0]
    return tuple(results)


def evaluate(graph: torch.fx.Graph, values: dict[object, object], find: Find) -> dict[object, object]:
    """``values``, which has those of a graph's placeholders, with all others, computed under the trace in progress.

    ``find`` gives the rule of each node.
    """
    for node in graph.nodes:
        if node.op == "call_function":
            values[node] = _apply(node, values, find)
    return values


def _inputs(program: torch.export.ExportedProgram, weights: Weights, stored: dict[str, Tracer],
            tensors: Sequence[object], recorder: Recorder) -> dict[object, object]:  # fmt: skip
    """The value of every placeholder that is read: a weight, a constant, or the traced tensor for an argument.

    ``stored`` has the weights that are known already.
    """
    given, values = iter(tensors), dict[object, object]()
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    for node, spec in zip(placeholders, program.graph_signature.input_specs, strict=True):
        if spec.target is None:
            values[node] = next(given)
        elif node.users:
            name = spec.target
            known = None if name in stored else known_zero_points(node, weights.table, name)
            if known is None and name not in stored:
                stored[name] = _stored(recorder, weights, name, program.constants)
            values[node] = stored[name] if known is None else known
    return values


def _stored(recorder: Recorder, weights: Weights, name: str, constants: Mapping[str, torch.Tensor]) -> Tracer:
    """A weight, which shares the tensor's memory, or a snapshot of a tensor that is none of the module's weights."""
    if name in weights.table:
        recorder.graph.weights = weights.table
        return Tracer(recorder, recorder.graph.add_weight(name, weights.table[name]))
    if name not in constants:
        raise UnsupportedError(f"the module's forward reads {name}, which belongs to an adapter that is not active",
                               fix="make it active: set_adapter")  # fmt: skip
    adapter = adapter_for(constants[name])
    if adapter is None:
        raise UnsupportedError(
            f"the module's forward uses {name}, a {type(constants[name]).__name__}, which a program does not hold",
            fix='seed PyTorch\'s default generator instead of one of its own, or use torch.compile(backend="zenith")',
        )  # fmt: skip
    return Tracer(recorder, recorder.constant(adapter.numpy(constants[name])))


def _apply(node: torch.fx.Node, values: Mapping[object, Any], find: Find) -> object:
    rule = find(node)
    assert rule is not None, f"{node.target} was checked"
    args, kwargs = torch.fx.map_arg((node.args, node.kwargs), lambda n: values[n])
    examples = torch.fx.map_arg(node.args, lambda n: n.meta.get("val"))  # a graph that an operator takes has none
    context = aten.Context(node.meta.get("val"), tuple(examples))

    def action() -> object:
        if node.target is not operator.getitem:
            pytree.tree_map(_known, args)
        return rule(context, *args, **kwargs)

    return at_line(node, action)


def _known(value: object) -> Any:
    """A value that some rule computed; UnsupportedError for what one left out."""
    if isinstance(value, aten.RefusedResult):
        raise UnsupportedError(value.why, where=user_line(), fix=value.fix)
    return value
