"""Linear algebra and Fourier transforms by CuPy, on the memory of a plan.

CuPy has these parts of NumPy by the same names, computed by cuSOLVER, cuBLAS and cuFFT. So what a primitive computes is
written once, against a namespace (:class:`zenith.ir.lowering.HostCall`), and here it is given CuPy's, with arrays made
over the addresses of the plan: nothing goes to the host. Whether a part can be called is found by calling it once;
where it cannot, NumPy computes on the host, and ``explain()`` says why.

Such a call is no part of a CUDA graph: CuPy allocates while it runs, and asks the device whether there was a result,
which waits. It ends by waiting for its stream, since the memory in which cuFFT works is kept with CuPy's plan, which
the thread's next call on any stream uses. Vectors that a matrix determines but for their sign may have another one
than LAPACK gives them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from zenith.backends.cuda.actions import Words
from zenith.backends.cuda.library import Door
from zenith.backends.routines import CUPY
from zenith.backends.steps import Call
from zenith.errors import DeviceError


class Arrays(Protocol):
    """Arrays on the device, and what computes with them by NumPy's names."""

    names: Any
    """The module."""

    def over(self, address: int, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        """An array of memory that somebody else keeps."""
        ...

    def on(self, stream: int) -> Any:
        """A context in which this thread computes on a stream, and LinAlgError is raised for what has no result."""
        ...


class CupyArrays:
    """CuPy's own."""

    def __init__(self) -> None:
        import cupy

        self.names = cupy

    def over(self, address: int, shape: tuple[int, ...], dtype: Any, device: int) -> Any:
        """An array of memory that somebody else keeps; one without elements has memory of its own."""
        if 0 in shape:
            return self.names.empty(shape, dtype)
        length = dtype.itemsize
        for size in shape:
            length *= size
        memory = self.names.cuda.UnownedMemory(address, length, None, device)
        return self.names.ndarray(shape, dtype, self.names.cuda.MemoryPointer(memory, 0))

    @contextmanager
    def on(self, stream: int) -> Iterator[None]:
        """CuPy's current stream, and its way to ask for errors."""
        import cupyx

        with self.names.cuda.ExternalStream(stream), cupyx.errstate(linalg="raise"):
            yield


def _door(part: str, try_it: Callable[[Any], Any]) -> Door:
    """The door to a part of CuPy, which can be called when ``try_it`` gives a result."""

    def check(found: CupyArrays) -> None:
        try:
            try_it(found.names)
        except found.names.cuda.compiler.CompileException as error:
            raise RuntimeError(f"CuPy cannot compile its kernels: {error}") from error

    return Door(f"{CUPY}.{part}", "cupy-cuda13x", CupyArrays, check, lambda found: None, 1)


LINALG = _door("linalg", lambda cupy: cupy.linalg.svd(cupy.linalg.solve(cupy.eye(2), cupy.eye(2))))
FFT = _door("fft", lambda cupy: cupy.fft.fft(cupy.ones(4, "complex64")))
DOORS = {door.name: door for door in (LINALG, FFT)}


class CupyCall:
    """A call of a routine on arrays of the device."""

    def __init__(
        self, words: Words, step: Call, places: Sequence[int], shapes: Sequence[tuple[int, ...]], arrays: Arrays
    ) -> None:
        self.words, self.step, self.places, self.shapes, self.arrays = words, step, places, shapes, arrays

    def __call__(self, stream: int) -> None:
        step, driver = self.step, self.words.driver
        device, values = driver.device(), self.words.values
        assert step.routine.among is not None
        with self.arrays.on(stream):
            found = [
                self.arrays.over(values[word], shape, type.dtype.numpy, device)
                for word, shape, type in zip(self.places, self.shapes, step.types, strict=True)
            ]
            if all(array.size == 0 for array in found[len(found) - step.results :]):
                return
            try:
                step.routine.among(self.arrays.names, found)
            except RuntimeError as error:
                raise DeviceError(f"{step.routine}: {error}", where=next(iter(step.lines), None)) from error
        driver.synchronize(stream)
