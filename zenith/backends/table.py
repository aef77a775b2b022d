"""The table of backends."""

from __future__ import annotations

from zenith.backends.backend import Backend
from zenith.backends.cpu.backend import CPU
from zenith.backends.cuda.backend import CUDA
from zenith.backends.engines import Engine
from zenith.backends.lanes.backend import LANES
from zenith.backends.reference.backend import REFERENCE
from zenith.errors import UnsupportedError

BACKENDS: dict[str, Backend] = {backend.name: backend for backend in (CPU, CUDA, LANES, REFERENCE)}


def backend_of(name: str) -> Backend:
    """The backend of a name; UnsupportedError when there is none."""
    if name not in tuple(BACKENDS):  # whatever it is
        raise UnsupportedError(f"there is no backend {name!r}", fix=f"choose one of {', '.join(BACKENDS)}")
    return BACKENDS[name]


def brought_engines() -> tuple[Engine, ...]:
    """The engines that backends bring, such as those that call a GPU's libraries."""
    return tuple(engine for backend in BACKENDS.values() for engine in backend.engines())


def default_backend(device: int | None) -> Backend:
    """The backend for arrays of a GPU, by its number, or of the host, None: the first one in the table."""
    return next(backend for backend in BACKENDS.values() if backend.is_gpu == (device is not None))
