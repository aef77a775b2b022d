"""Linear algebra and Fourier transforms by CuPy, on the memory of a plan.

CuPy has these submodules of NumPy by the same names, computed by cuSOLVER, cuBLAS and cuFFT. So a primitive's
computation is written once, against a namespace (:class:`zenith.ir.lowering.HostCall`), and here it gets CuPy's, with
arrays made over the addresses of the plan: nothing is copied to the host. One call finds whether a submodule works;
where it does not, NumPy computes on the host, and ``explain()`` says why.

Such a call cannot be in a CUDA graph: CuPy allocates while it runs, and asks the device whether there was a result,
which waits. It ends by waiting for its stream, since cuFFT's workspace belongs to CuPy's plan, which the thread's next
call on any stream uses. Vectors that a matrix determines up to their sign may have another sign than LAPACK gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from zenith.backends.cuda.actions import HostFrame
from zenith.backends.cuda.library import Door
from zenith.backends.routines import CUPY
from zenith.backends.steps import CallStep
from zenith.errors import DeviceError


class Arrays(Protocol):
    """Arrays on the device, and a module that computes with them by NumPy's names."""

    names: Any
    """The module."""

    def over(self, address: int, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        """An array on memory that it does not own."""
        ...

    def on(self, stream: int) -> Any:
        """A context in which this thread computes on a stream, and problems without a result raise LinAlgError."""
        ...


class CupyArrays:
    """CuPy's own."""

    def __init__(self) -> None:
        import cupy

        self.names = cupy

    def over(self, address: int, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        """An array on memory that it does not own; one without elements has memory of its own."""
        if 0 in shape:
            return self.names.empty(shape, dtype)
        length = dtype.itemsize
        for size in shape:
            length *= size
        memory = self.names.cuda.UnownedMemory(address, length, None, device)
        return self.names.ndarray(shape, dtype, self.names.cuda.MemoryPointer(memory, 0))

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """Set CuPy's current stream, and have CuPy raise errors."""
        import cupyx

        with self.names.cuda.ExternalStream(stream), cupyx.errstate(linalg="raise"):
            yield


def _door(submodule: str, try_it: Callable[[Any], Any]) -> Door:
    """The door to a submodule of CuPy, which can be called when ``try_it`` gives a result."""

    def check(found: CupyArrays) -> None:
        try:
            try_it(found.names)
        except found.names.cuda.compiler.CompileException as error:
            raise RuntimeError(f"CuPy cannot compile its kernels: {error}") from error

    return Door(f"{CUPY}.{submodule}", "cupy-cuda13x", CupyArrays, check, lambda found: None, 1)


LINALG = _door("linalg", lambda cupy: cupy.linalg.svd(cupy.linalg.solve(cupy.eye(2), cupy.eye(2))))
FFT = _door("fft", lambda cupy: cupy.fft.fft(cupy.ones(4, "complex64")))
DOORS = {door.name: door for door in (LINALG, FFT)}


class CupyCall:
    """A call of a routine on arrays of the device."""

    def __init__(
        self,
        words: HostFrame,
        step: CallStep,
        operands: Sequence[int],
        shapes: Sequence[tuple[int, ...]],
        arrays: Arrays,
    ) -> None:
        self.words, self.step, self.operands, self.shapes, self.arrays = words, step, operands, shapes, arrays

    def __call__(self, stream: int) -> None:
        step, driver = self.step, self.words.driver
        device, values = driver.device(), self.words.values
        assert step.routine.in_namespace is not None
        with self.arrays.on(stream):
            found = [
                self.arrays.over(values[word], shape, type.dtype.numpy, device)
                for word, shape, type in zip(self.operands, self.shapes, step.types, strict=True)
            ]
            if all(array.size == 0 for array in found[len(found) - step.results :]):
                return
            try:
                step.routine.in_namespace(self.arrays.names, found)
            except RuntimeError as error:
                raise DeviceError(f"{step.routine}: {error}", where=next(iter(step.lines), None)) from error
        driver.synchronize(stream)
