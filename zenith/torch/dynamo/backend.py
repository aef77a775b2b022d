"""The backend that ``torch.compile(model, backend="zenith")`` finds.

TorchDynamo records the Python of a model as graphs, AOTAutograd makes a forward and a backward graph from each, with
mutation, aliasing and autocast written out, and each becomes a Zenith program.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._prims_common import suggest_memory_format

from zenith import tree
from zenith.torch import aten
from zenith.torch.dynamo.boxed import boxed
from zenith.torch.dynamo.called import call_unrecorded
from zenith.torch.dynamo.eager_graphs import eager_after, eager_graph
from zenith.torch.dynamo.graphs import CompiledGraph
from zenith.torch.dynamo.mutations import written_arguments
from zenith.torch.dynamo.options import Options, note_mode
from zenith.torch.dynamo.partition import partition
from zenith.torch.dynamo.recurrent import record_as_operators
from zenith.torch.dynamo.report import Graph, forget
from zenith.torch.steps import draws
from zenith.torch.undecomposed import without_early_decompositions


def zenith(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[object],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph that TorchDynamo recorded; :class:`~zenith.torch.dynamo.options.Options` says what can be asked.

    A mode and options of TorchInductor's are noted and change nothing. Raises ArgumentError for unknown ones.
    """
    if mode is not None:
        note_mode(mode)
    chosen, frame = Options.of(options or {}), torch._guards.CompileContext.current_compile_id()
    names = [readable(node.name) for node in module.graph.find_nodes(op="placeholder")]
    donated: list[int] = []  # the arguments of the backward graph that are

    def compiler(kind: str) -> Callable[..., object]:
        def compile(graph: torch.fx.GraphModule, inputs: Sequence[object]) -> object:
            if kind == "forward":
                donated.extend(_take_donated())
            own = [node.name for node in graph.graph.find_nodes(op="placeholder")]
            known = names if kind != "backward" and len(own) == len(names) else own
            static, written = (_parameters(graph), written_arguments(graph)) if kind == "inference" else ((), {})
            name = tree.identifier(f"graph_{frame}_{kind}")
            made: Graph | None = eager_graph(graph, name, chosen.fallback)
            try:
                made = made or CompiledGraph(
                    graph, name, chosen, known, static, written, donated if kind == "backward" else ()
                )
            except Warning:
                raise  # the user has warnings raised
            except Exception as error:
                made = eager_after(error, graph, name, chosen.fallback)
            return boxed(made, graph, chosen.fallback)

        return compile

    made = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=partition,
        decompositions=_decompositions(),
    )
    with without_early_decompositions():
        found: Callable[..., object] = made(module, example_inputs)
    return found


record_as_operators(zenith)
call_unrecorded()
zenith.reset = forget  # type: ignore[attr-defined]  # what ``torch.compiler.reset()`` calls of a backend


def readable(placeholder: str) -> str:
    """The name of an argument without Dynamo's marks.

    >>> readable("l_self_modules_layers_modules_0_parameters_weight_"), readable("l_x_"), readable("s77")
    ('layers_0_weight', 'x', 's77')
    """
    name = re.sub(r"^L_+|^l_+(?:self_)?|_+$", "", placeholder)
    return re.sub(r"(?:^|(?<=_))(?:modules|parameters|buffers)_", "", name) or placeholder


def _take_donated() -> Sequence[int]:
    """The indices of the backward graph's arguments that are made for it alone, by AOTAutograd's metadata.

    There they are struck out, since it refuses ``backward(retain_graph=True)`` where there are any. A program copies
    those that somebody else has (:mod:`zenith.torch.dynamo.ownership`).
    """
    context = torch._guards.TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return ()
    found, context.fw_metadata.bw_donated_idxs = context.fw_metadata.bw_donated_idxs, []
    return found or ()


def _parameters(graph: torch.fx.GraphModule) -> Sequence[int]:
    """The indices of the arguments that are a module's parameters and buffers."""
    context = torch._guards.TracingContext.try_get()
    meta = None if context is None else context.fw_metadata
    return () if meta is None else tuple(meta.static_input_indices)


def _decompositions() -> dict[object, object]:
    """Core ATen's table without the operators that Zenith has a rule for: decomposed, they would only lose meaning."""
    ops = torch.ops.aten
    more = [ops._batch_norm_with_update_functional, ops.batch_norm_backward, ops.rrelu_with_noise_backward]
    table = dict(torch._decomp.core_aten_decompositions().items()) | torch._decomp.get_decompositions(more)
    remaining = {op: how for op, how in table.items() if aten.find(op) is None and not draws(op)}
    return remaining | {op: _laid_out(op) for op in (ops._native_batch_norm_legit_functional.default,)}


def _laid_out(op: torch._ops.OpOverload) -> Callable[..., object]:
    """An operator whose first result is dense, as PyTorch's kernel makes it and its shape function does not know.

    Dropout after it draws in the order of memory.
    """
    is_itself = False

    def computed(x: torch.Tensor, *args: object, **kwargs: object) -> Any:
        nonlocal is_itself
        if is_itself:
            return NotImplemented  # trace it as it is
        is_itself = True
        try:
            found, *more = op(x, *args, **kwargs)
        finally:
            is_itself = False
        return (found.contiguous(memory_format=suggest_memory_format(x)), *more)

    return computed
