"""Linking a plan on a GPU: its kernels compiled and loaded, its constants uploaded."""

from __future__ import annotations

from zenith.backends.cuda.compile import compile_kernel
from zenith.backends.cuda.device_memory import DeviceMemory
from zenith.backends.cuda.driver import driver
from zenith.backends.cuda.executable import Executable
from zenith.backends.cuda.functions import Compile
from zenith.backends.cuda.memory import pool
from zenith.backends.cuda.target import DEFAULT
from zenith.backends.plan import Plan
from zenith.backends.weights import WeightTable
from zenith.errors import DeviceError
from zenith.ir.graph import Graph


def planned_arch(device: int | None) -> str:
    """The architecture of a device, the current one when None; where no GPU can be used, that of ``cuda_target``."""
    try:
        found = driver()
    except DeviceError:
        return DEFAULT
    return found.describe(found.device() if device is None else device).arch


def link(plan: Plan, graph: Graph, device: int | None = None, compile: Compile | None = None) -> Executable:
    """The executable of a plan on a device, the current one when None; ``compile`` replaces the compiler.

    Raises DeviceError when no GPU can be used here.
    """
    device = driver().device() if device is None else device
    weights = graph.weights
    table = weights if isinstance(weights, WeightTable) else WeightTable({}, DeviceMemory(pool(), device))
    return Executable(plan, table, pool(), device, compile or compile_kernel)
