"""The backend that ``torch.compile(model, backend="zenith")`` finds.

TorchDynamo records the Python of a model as graphs, AOTAutograd makes graphs of a way forward and a way back of each,
with mutation, aliasing and autocast written out, and each becomes a Zenith program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd

from zenith.ir.target import Numerics
from zenith.torch import aten
from zenith.torch.dynamo.graphs import CompiledGraph
from zenith.torch.dynamo.steps import draws


def zenith(module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """Compile a graph that TorchDynamo recorded."""
    name = f"graph_{str(torch._guards.CompileContext.current_compile_id()).replace('/', '_')}"

    def compiler(kind: str) -> Callable[..., Any]:
        def compile(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            compiled = CompiledGraph(graph, f"{name}_{kind}", Numerics(), None)

            def call(args: list[Any]) -> list[Any]:
                return compiled(args)

            call._boxed_call = True
            return call

        return compile

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=_decompositions(),
    )
    return backend(module, example_inputs)


def _decompositions() -> dict[Any, Any]:
    """Core ATen's table without the operators that Zenith has a rule for: decomposed, they would only lose meaning."""
    ops = torch.ops.aten
    others = [ops._batch_norm_with_update_functional, ops.batch_norm_backward, ops.rrelu_with_noise_backward]
    table = {**torch._decomp.core_aten_decompositions(), **torch._decomp.get_decompositions(others)}
    return {op: how for op, how in table.items() if aten.find(op) is None and not draws(op)}
