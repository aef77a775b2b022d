"""Zenith's own functions in a model that TorchDynamo records: they are called between graphs, not recorded.

What they do is Zenith's Python, of which TorchDynamo would make hundreds of graphs. A module of ``from_torch`` is no
such function: the module that it was compiled from is recorded, as a part of the graph.
"""

from __future__ import annotations

from torch._C._dynamo.eval_frame import set_code_exec_strategy
from torch._dynamo.types import FrameAction, FrameExecStrategy

from zenith.api.jit import Jitted
from zenith.api.loading import Loaded
from zenith.api.methods import JittedMethod, MethodOfStaticInstance
from zenith.api.stages import Compiled
from zenith.torch.functional import Functional

_SKIP = FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP)  # with all that is called there


def call_unrecorded() -> None:
    """Have TorchDynamo end a graph before a call of Zenith's compiled functions, and leave all within it alone."""
    for kind in (Jitted, JittedMethod, MethodOfStaticInstance, Compiled, Loaded, Functional):
        function = vars(kind)["__call__"]
        function._torchdynamo_disable = True
        function._torchdynamo_disable_msg = "it is compiled by Zenith"
        set_code_exec_strategy(function.__code__, _SKIP)
