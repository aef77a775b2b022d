"""Zenith: traces NumPy functions and PyTorch modules into a readable graph, and compiles it to readable kernels.

>>> import numpy as np, zenith
>>> @zenith.jit
... def step(x, w, b):
...     return np.tanh(x @ w + b)
"""

from typing import TYPE_CHECKING, Any

from zenith import sources as _sources  # noqa: F401  first: it notes what is imported from here on

# isort: split
from zenith import errors, tree
from zenith import precisions as _precisions  # noqa: F401  registers what chooses them
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
    from zenith import debug, kernels, memory, nn, numpy, optim, random, torch
    from zenith.accuracy import verify
    from zenith.ahead import aot
    from zenith.backends.cpu.threads import set_num_threads
    from zenith.checks import error_if
    from zenith.control import associative_scan, cond, fori_loop, map, scan, switch, while_loop
    from zenith.device import synchronize
    from zenith.generation import Generator, generate
    from zenith.numpy import (
        dynamic_index_in_dim,
        dynamic_slice,
        dynamic_slice_in_dim,
        dynamic_update_index_in_dim,
        dynamic_update_slice,
        dynamic_update_slice_in_dim,
    )
    from zenith.outside import custom_op, pure_callback
    from zenith.quantization import quantize
    from zenith.serial import load
    from zenith.torch import from_torch
    from zenith.transforms import (
        checkpoint,
        checkpoint_name,
        checkpoint_policies,
        custom_jvp,
        custom_vjp,
        grad,
        hessian,
        jacfwd,
        jacrev,
        jvp,
        linearize,
        stop_gradient,
        value_and_grad,
        vjp,
        vmap,
    )

__version__ = "0.1.0"

__all__ = [
    "CacheInfo",
    "Compiled",
    "Dim",
    "Explanation",
    "Generator",
    "Graph",
    "Jitted",
    "Lowered",
    "ShapeDtypeStruct",
    "ZenithError",
    "aot",
    "associative_scan",
    "checkpoint",
    "checkpoint_name",
    "checkpoint_policies",
    "cond",
    "config",
    "custom_jvp",
    "custom_op",
    "custom_vjp",
    "debug",
    "disable_jit",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "dynamic_update_slice_in_dim",
    "error_if",
    "errors",
    "eval_shape",
    "forbid_recompile",
    "fori_loop",
    "from_torch",
    "generate",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jit",
    "jvp",
    "kernels",
    "linearize",
    "load",
    "make_graph",
    "map",
    "memory",
    "nn",
    "numpy",
    "optim",
    "parse",
    "pure_callback",
    "quantize",
    "random",
    "scan",
    "set_num_threads",
    "stop_gradient",
    "switch",
    "synchronize",
    "torch",
    "tree",
    "value_and_grad",
    "verify",
    "vjp",
    "vmap",
    "while_loop",
]


def __getattr__(name: str) -> Any:
    """Rooms that load another library, or are not always needed, are imported at their first use."""
    from importlib import import_module

    if name in ("debug", "kernels", "memory", "nn", "numpy", "optim", "random", "torch", "transforms"):
        return import_module(f"zenith.{name}")
    homes = {
        "control": ("associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"),
        "checks": ("error_if",),
        "device": ("synchronize",),
        "outside": ("custom_op", "pure_callback"),
        "accuracy": ("verify",),
        "ahead": ("aot",),
        "backends.cpu.threads": ("set_num_threads",),
        "generation": ("Generator", "generate"),
        "quantization": ("quantize",),
        "serial": ("load",),
        "torch": ("from_torch",),
    }
    home = next((room for room, names in homes.items() if name in names), "transforms")
    if name in __all__:
        return getattr(import_module("zenith.numpy" if name.startswith("dynamic_") else f"zenith.{home}"), name)
    raise AttributeError(f"module 'zenith' has no attribute {name!r}")
