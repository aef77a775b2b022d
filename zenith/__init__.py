"""Zenith: traces NumPy functions and PyTorch modules into a readable graph, and compiles it to readable kernels.

>>> import numpy as np, zenith
>>> @zenith.jit
... def step(x, w, b):
...     return np.tanh(x @ w + b)
"""

from typing import TYPE_CHECKING, Any

from zenith import errors, tree
from zenith.api import (
    CacheInfo,
    Compiled,
    Dim,
    Explanation,
    Jitted,
    Lowered,
    ShapeDtypeStruct,
    disable_jit,
    eval_shape,
    forbid_recompile,
    jit,
    make_graph,
)
from zenith.config import config
from zenith.errors import ZenithError
from zenith.ir import ops as _primitives  # noqa: F401  fills the registry
from zenith.ir.graph import Graph
from zenith.ir.text import parse

if TYPE_CHECKING:
    from zenith import debug, kernels, numpy, torch
    from zenith.control import associative_scan, cond, fori_loop, map, scan, switch, while_loop
    from zenith.torch import from_torch

__version__ = "0.1.0"

__all__ = [
    "CacheInfo",
    "Compiled",
    "Dim",
    "Explanation",
    "Graph",
    "Jitted",
    "Lowered",
    "ShapeDtypeStruct",
    "ZenithError",
    "associative_scan",
    "cond",
    "config",
    "debug",
    "disable_jit",
    "errors",
    "eval_shape",
    "forbid_recompile",
    "fori_loop",
    "from_torch",
    "jit",
    "kernels",
    "make_graph",
    "map",
    "numpy",
    "parse",
    "scan",
    "switch",
    "torch",
    "tree",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    """Rooms that load another library, or are not always needed, are imported at their first use."""
    from importlib import import_module

    if name in ("debug", "kernels", "numpy", "torch"):
        return import_module(f"zenith.{name}")
    if name in ("associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"):
        return getattr(import_module("zenith.control"), name)
    if name == "from_torch":
        return import_module("zenith.torch").from_torch
    raise AttributeError(f"module 'zenith' has no attribute {name!r}")
