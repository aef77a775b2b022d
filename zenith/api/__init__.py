"""The user-facing interface: ``jit`` and its calls, abstract evaluation, and what they tell about themselves."""

from zenith.api.abstract import ShapeDtypeStruct, eval_shape, make_graph
from zenith.api.inspection import CacheInfo, Explanation
from zenith.api.jit import Jitted, disable_jit, jit
from zenith.api.sizes import Dim

__all__ = [
    "CacheInfo", "Dim", "Explanation", "Jitted", "ShapeDtypeStruct", "disable_jit", "eval_shape", "jit", "make_graph",
]  # fmt: skip
