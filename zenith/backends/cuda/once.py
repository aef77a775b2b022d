"""Prepared launches: run when weights are new, with parameters of their own.

They run after all earlier work on the device and before all later work, on any stream: weights are written on streams
that are not known here, and results are in memory of the default stream, whose last readers may still run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from zenith.backends.cuda.driver import Driver
from zenith.backends.cuda.functions import Functions
from zenith.backends.cuda.launch import LaunchArguments, geometry
from zenith.backends.failures import failures, reported
from zenith.backends.steps import LaunchStep


def run_once(driver: Driver, functions: Functions, launch: LaunchStep, addresses: Sequence[int]) -> None:
    """Run a launch whose work is the same in every call; its results are there when this returns.

    Raises OutOfBoundsError when an index was outside its axis.
    """
    kernel = launch.kernel
    sizes, tasks = dict.fromkeys(kernel.sizes, 0), kernel.tasks.evaluate({})
    if not tasks:
        return
    function = functions.choose(sizes, addresses)
    grid = geometry(kernel, function.form, tasks, sizes)
    arguments = LaunchArguments(kernel, function.form)
    arguments.set_sizes(tasks, grid, sizes)
    status = driver.pinned(8)
    arguments.set_addresses(status.address, addresses)
    driver.synchronize_device()
    driver.launch(function.handle, grid.blocks, 1, 1, grid.threads, 1, 1, grid.shared, 0, arguments.address, 0)
    driver.synchronize_device()
    code = ctypes.c_int64.from_address(status.address).value
    if code:
        raise reported(failures(kernel, launch.lines), code).error()
