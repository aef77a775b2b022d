"""The CUDA installation: CuPy, the NVIDIA driver, devices; and how to fix it when something is missing.

:func:`find` inspects the machine, :func:`problem` says what is wrong with what was found.

>>> problem(CudaInstallation(package="cupy 14.2", built_for=13020, driver=12040)).what
'the NVIDIA driver is made for CUDA 12.4, too old for kernels of CUDA 13'
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass

from zenith.errors import DeviceError

CUDA = 13  # the CUDA generation that kernels are compiled for
_INSTALL = "pip install 'zenith-compiler[cuda13]'"
_ON_CPU = "or compute on the CPU: pass NumPy arrays or CPU tensors, and leave backend= out"


@dataclass(frozen=True)
class CudaInstallation:
    """The CUDA installation of a machine.

    ``package`` is CuPy with its version, None where it is not installed; ``broken`` says why it cannot be imported.
    ``built_for`` and ``driver`` are CUDA versions as CUDA writes them (13020 is 13.2); ``driver`` is None where no
    driver can be loaded. ``devices`` counts GPUs, ``refusal`` is CUDA's message when it finds none.
    """

    package: str | None = None
    broken: str | None = None
    built_for: int | None = None
    driver: int | None = None
    devices: int = 0
    refusal: str | None = None


def version_text(number: int) -> str:
    """A CUDA version as people write it.

    >>> version_text(12040)
    '12.4'
    """
    return f"{number // 1000}.{number % 1000 // 10}"


def find() -> CudaInstallation:
    """Look at this machine. Imports CuPy when it is installed."""
    driver = _driver_version()
    try:
        import cupy
    except ModuleNotFoundError as error:
        if error.name != "cupy":
            return CudaInstallation(package="cupy", broken=str(error), driver=driver)
        return CudaInstallation(driver=driver)
    except ImportError as error:  # a library of CUDA's is missing; CuPy's message is long, its cause is short
        return CudaInstallation(
            package="cupy", broken=f"{error.__cause__ or error}".strip().partition("\n")[0], driver=driver
        )
    from cupy_backends.cuda.api import driver as api
    from cupy_backends.cuda.api import runtime

    package, built_for = f"cupy {cupy.__version__}", int(api.get_build_version())
    try:
        return CudaInstallation(package, None, built_for, driver, int(runtime.getDeviceCount()))
    except RuntimeError as error:
        return CudaInstallation(package, None, built_for, driver, 0, str(error))


def _driver_version() -> int | None:
    """The CUDA version of the NVIDIA driver; None when none can be loaded."""
    try:
        library = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    return int(version.value) if library.cuDriverGetVersion(ctypes.byref(version)) == 0 else 0


def problem(found: CudaInstallation) -> DeviceError | None:
    """Why kernels cannot run on a GPU with what was found, and the fix; None when they can."""
    if found.package is None:
        return DeviceError("computing on a GPU needs CuPy, which is not installed", fix=_INSTALL)
    if found.broken is not None:
        return DeviceError(f"CuPy is installed but cannot be imported: {found.broken}",
                           fix=f"pip uninstall all packages called cupy..., then {_INSTALL}")  # fmt: skip
    if found.driver is None:
        return DeviceError("there is no NVIDIA driver: libcuda.so.1 cannot be loaded",
                           fix=f"install the driver of the GPU, {_ON_CPU}")  # fmt: skip
    assert found.built_for is not None, "CuPy was imported"
    if found.built_for // 1000 != CUDA:
        return DeviceError(
            f"the installed CuPy is made for CUDA {found.built_for // 1000}, Zenith's kernels for CUDA {CUDA}",
            fix=f"pip uninstall cupy-cuda{found.built_for // 1000}x, then {_INSTALL}",
        )
    if found.driver // 1000 < CUDA:
        return DeviceError(
            f"the NVIDIA driver is made for CUDA {version_text(found.driver)}, too old for kernels of CUDA {CUDA}",
            fix=f"update the driver to version 580 or newer, {_ON_CPU}",
        )
    if not found.devices:
        return DeviceError(f"the NVIDIA driver shows no GPU ({found.refusal or 'it counts none'})",
                           fix=f"look at nvidia-smi and at CUDA_VISIBLE_DEVICES, {_ON_CPU}")  # fmt: skip
    return None
