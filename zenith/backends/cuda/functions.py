"""Functions: the compiled forms of kernels, loaded on a device, and which form a launch takes.

A kernel is compiled ahead in every form that calls usually need (narrow and wide accesses, rows in registers or read
repeatedly). Sizes and the alignment of addresses decide which of them a launch takes, once for each set of these. The
form with 64-bit indices is compiled by the first call that has a buffer of 2**31 elements.
"""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zenith.backends.cuda.driver import Driver, on_device
from zenith.backends.cuda.forms import KernelForm, fits, forms
from zenith.backends.kernel import Kernel

Compile = Callable[[Kernel, KernelForm, str], Any]  # a kernel's code in a form for an architecture


class DeviceFunction:
    """One form of a kernel on a device."""

    def __init__(self, driver: Driver, code: Any) -> None:
        self.code, self.form = code, code.form
        self.module, self.handle = driver.load(code)
        weakref.finalize(self, _unload, driver, driver.device(), self.module).atexit = False


def _unload(driver: Driver, device: int, module: int) -> None:
    with on_device(driver, device):
        driver.unload(module)


class Functions:
    """The functions of one kernel on the current device, the preferred first."""

    def __init__(self, driver: Driver, kernel: Kernel, compile: Compile, arch: str) -> None:
        started = time.perf_counter()
        self.kernel = kernel
        self._load = lambda form: _loaded(driver, compile(kernel, form, arch))
        self.functions = [
            self._load(form) for form in sorted(forms(kernel), key=lambda form: (-form.width, -form.iterations))
        ]
        self.milliseconds = (time.perf_counter() - started) * 1e3

    def choose(self, sizes: Mapping[str, int], addresses: Sequence[int]) -> DeviceFunction:
        """The function for these sizes; only the alignment of addresses matters."""
        for function in self.functions:
            if fits(self.kernel, function.form, sizes, addresses):
                return function
        self.functions.append(self._load(KernelForm("u64")))
        return self.functions[-1]


_functions: weakref.WeakValueDictionary[Any, DeviceFunction] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def _loaded(driver: Driver, code: Any) -> DeviceFunction:
    """The function of some code; programs with equal machine code share it."""
    digest = hashlib.sha256(code.cubin).hexdigest() if code.cubin else id(code)
    key = id(driver), driver.device(), code.kernel.name, code.form, digest
    with _lock:
        found = _functions.get(key)
        if found is None:
            found = _functions[key] = DeviceFunction(driver, code)
        return found
