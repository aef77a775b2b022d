"""Diagnoses of a machine that cannot compute on a GPU: each lack has its own reason and fix."""

import ctypes
import subprocess
import sys

import pytest

from zenith.backends.cuda import driver as driver_module
from zenith.backends.cuda.presence import CudaInstallation as Found
from zenith.backends.cuda.presence import find, problem
from zenith.errors import DeviceError

GOOD = Found(package="cupy 14.2", built_for=13020, driver=13000, devices=1)


@pytest.mark.parametrize(
    ("found", "what", "fix"),
    [
        (Found(driver=13000, devices=1), "needs CuPy, which is not installed", r"'zenith-compiler\[cuda13\]'"),
        (Found("cupy", "libcudart.so.13 is missing", driver=13000), "cannot be imported: libcudart", "uninstall"),
        (Found("cupy 14.2", None, 13020, None), "no NVIDIA driver: libcuda.so.1", "install the driver"),
        (Found("cupy 13.6", None, 12090, 13000, 1), "made for CUDA 12, Zenith's kernels for CUDA 13", "cupy-cuda12x"),
        (Found("cupy 14.2", None, 13020, 12040), "made for CUDA 12.4, too old for kernels of CUDA 13", "version 580"),
        (Found("cupy 14.2", None, 13020, 13000, 0, "no device"), r"shows no GPU \(no device\)", "CUDA_VISIBLE_DEVICES"),
    ],
)  # fmt: skip
def test_every_lack_is_reported(found, what, fix):
    error = problem(found)
    assert isinstance(error, DeviceError)
    with pytest.raises(DeviceError, match=rf"{what}[\s\S]*fix: [\s\S]*{fix}"):
        raise error


def test_a_machine_that_has_everything():
    assert problem(GOOD) is None


def test_this_machine_is_described():
    found, why = find(), problem(find())
    assert (found.devices == 0) <= (why is not None)
    if why is not None:
        with pytest.raises(DeviceError, match=why.what.split("(")[0].split(":")[0]):
            driver_module.CudaDriver()


def test_a_machine_without_cupy():
    """In a process that cannot import CuPy."""
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "import numpy as np, zenith\n"
        "try: zenith.jit(lambda x: x, backend='cuda')(np.ones(3))\n"
        "except zenith.errors.DeviceError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "needs CuPy, which is not installed" in done.stdout and "zenith-compiler[cuda13]" in done.stdout


def test_architectures_have_their_own_instructions_from_hopper_on():
    device = driver_module.Device(0, "a GPU", (9, 0), 1)
    assert device.arch == "sm_90a" and driver_module.Device(0, "a GPU", (7, 5), 1).arch == "sm_75"


def test_the_driver_s_calls_are_those_of_cupy():
    """The functions that the real driver binds exist in the installed CuPy and take integers."""
    pytest.importorskip("cupy")
    from cupy_backends.cuda.api import driver, runtime

    names = ("getDevice", "setDevice", "streamSynchronize", "deviceSynchronize", "memGetInfo", "memcpyAsync", "free",
             "hostAlloc", "freeHost", "eventCreateWithFlags", "eventRecord", "eventQuery", "streamWaitEvent",
             "getDeviceProperties", "memcpyDefault", "hostAllocMapped", "eventDisableTiming")  # fmt: skip
    assert all(hasattr(runtime, name) for name in names)
    assert "intptr_t kernel_params, intptr_t extra)" in driver.launchKernel.__doc__
    assert driver.moduleLoadData.__doc__.startswith("moduleLoadData(bytes image)")
    assert ctypes.sizeof(ctypes.c_void_p) == 8
