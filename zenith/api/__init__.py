"""The user-facing interface: ``jit`` and its calls, abstract evaluation, and their reports."""

from zenith.api.abstract import ShapeDtypeStruct, eval_shape, make_graph
from zenith.api.inspection import CacheInfo, Explanation
from zenith.api.jit import Jitted, disable_jit, jit
from zenith.api.recompilation import forbid_recompile
from zenith.api.sizes import Dim
from zenith.api.stages import Compiled, Lowered

__all__ = [
    "CacheInfo", "Compiled", "Dim", "Explanation", "Jitted", "Lowered", "ShapeDtypeStruct", "disable_jit", "eval_shape",
    "forbid_recompile", "jit", "make_graph",
]  # fmt: skip
