"""NumPy in CuPy's stead, on the memory of the driver without a device.

Arguments that CuPy's functions refuse are errors here, too: ``out``, and arrays that are not on the device. ``calls``
lists function and stream of each call; results are new arrays, which no program may retain.
"""

from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import numpy as np

from zenith.backends.cuda import cupy_calls
from zenith.backends.cuda.library import Door

TRANSFORMS = {"fft": ("axis", "norm"), "ifft": ("axis", "norm"), "rfft": ("axis", "norm"), "irfft": ("axis", "norm")}
FACTORS = {"cholesky": (), "det": (), "eigh": ("UPLO",), "eigvalsh": ("UPLO",), "inv": (), "qr": ("mode",),
           "slogdet": (), "solve": (), "svd": ("full_matrices", "compute_uv")}  # fmt: skip
OTHERS = ("eye", "broadcast_to", "array", "empty")


class OnDevice(np.ndarray):
    """An array over an address, as CuPy makes them."""


class FakeArrays:
    """The interface of :class:`zenith.backends.cuda.cupy_calls.CupyArrays`, without a device."""

    def __init__(self, driver):
        self.driver, self.calls, self.stream = driver, [], None
        libraries = {"fft": TRANSFORMS, "linalg": FACTORS}
        spaces = {
            library: SimpleNamespace(**{n: self._counted(f"{library}.{n}", getattr(getattr(np, library), n), o)
                                     for n, o in functions.items()})
            for library, functions in libraries.items()
        }  # fmt: skip
        self.names = SimpleNamespace(**spaces, **{n: self._on_device(getattr(np, n)) for n in OTHERS})

    def over(self, address, shape, dtype, device):
        assert self.stream is not None and device == self.driver.device()
        buffer = SimpleNamespace(name="an array", dtype=SimpleNamespace(numpy=dtype, itemsize=dtype.itemsize),
                                 size=SimpleNamespace(evaluate=lambda sizes: int(np.prod(shape))))  # fmt: skip
        if 0 in shape:
            return np.empty(shape, dtype).view(OnDevice)
        return self.driver.view(address, buffer, {})[: int(np.prod(shape))].reshape(shape).view(OnDevice)

    @contextmanager
    def on(self, stream):
        assert stream not in self.driver.graphs.capturing, "CuPy's libraries refuse a capturing stream"
        before, self.stream = self.stream, stream
        try:
            yield
        finally:
            self.stream = before

    def _counted(self, name, function, options):
        def call(*arrays, **given):
            assert set(given) <= set(options), f"CuPy's {name} takes no {set(given) - set(options)}"
            assert all(isinstance(a, OnDevice) for a in arrays if isinstance(a, np.ndarray)), "an array of the host"
            self.calls.append((name, self.stream))
            self.driver.finish()  # earlier work on the stream
            before = [a.copy() for a in arrays if isinstance(a, np.ndarray)]
            found = function(*arrays, **given)
            after = [a for a in arrays if isinstance(a, np.ndarray)]
            assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(before, after, strict=True))
            results = [np.asarray(r).view(OnDevice) for r in (found if isinstance(found, tuple) else (found,))]
            return tuple(results) if isinstance(found, tuple) else results[0]

        return call

    def _on_device(self, function):
        return lambda *given, **options: function(*given, **options).view(OnDevice)


@contextmanager
def fake_cupy(driver):
    """Within this block CuPy computes without a device."""
    found = FakeArrays(driver)
    with ExitStack() as stack:
        for door in cupy_calls.DOORS.values():
            assert isinstance(door, Door)
            stack.enter_context(door.using(found, ""))
        yield found
