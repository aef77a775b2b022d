"""Where a call runs: on the one device of all of its arrays. Nothing is moved silently.

>>> import numpy as np
>>> choose(None, [("x", np.ones(3)), ("k", 2.5)])
Where(backend='cpu', device=None)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zenith.api.leaves import adapter_of, is_number
from zenith.arrays import Adapter, device_name
from zenith.backends.backend import MakeCachedCall
from zenith.backends.codec import record
from zenith.backends.table import backend_of, default_backend
from zenith.errors import DeviceError


@record
@dataclass(frozen=True, slots=True)
class Where:
    """A backend's name (in :data:`zenith.backends.table.BACKENDS`), and the number of the GPU for one of GPUs."""

    backend: str
    device: int | None = None

    @property
    def traffic(self) -> int:
        """What memory traffic costs there (:attr:`zenith.backends.backend.Backend.traffic`)."""
        return backend_of(self.backend).traffic

    @property
    def sized_loops(self) -> bool:
        """Whether sizes may differ there from turn to turn of a loop."""
        return backend_of(self.backend).sized_loops

    @property
    def inline_cache(self) -> MakeCachedCall | None:
        """What makes cached calls there (:attr:`zenith.backends.backend.Backend.inline_cache`)."""
        return backend_of(self.backend).inline_cache

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        return backend_of(self.backend).is_gpu


def choose(wanted: str | None, leaves: Iterable[tuple[str, object]], abstract: bool = False) -> Where:
    """Where a call runs with these leaves, given with their names; ``wanted`` is the backend that was asked for.

    With ``abstract`` some leaves are stand-ins for arrays, on :func:`planned_gpu`, and no GPU has to be there.

    Raises DeviceError when arrays are on several devices or on another one than was asked for, and when a GPU is
    asked for and cannot be used.
    """
    if abstract:
        backend = wanted or default_backend(None).name
        return Where(backend, planned_gpu() if backend_of(backend).is_gpu else None)
    arrays = [(name, adapter_of(leaf)) for name, leaf in leaves if not is_number(leaf)]
    return choose_for(wanted, arrays)


def choose_for(wanted: str | None, arrays: Iterable[tuple[str, Adapter]]) -> Where:
    """The same for the adapters of arrays."""
    first: dict[int | None, tuple[str, Adapter]] = {}
    for name, adapter in arrays:
        first.setdefault(adapter.device, (name, adapter))
    backend = None if wanted is None else backend_of(wanted)
    if backend is not None:
        backend.require()
    if len(first) > 1:
        raise _two_devices(*list(first.values())[:2])
    for device, (name, adapter) in first.items():
        _check(wanted, device, name, adapter)
    device = next(iter(first), None)
    if device is None and backend is not None and backend.current_device is not None:
        device = backend.current_device()
    return Where(wanted or default_backend(device).name, device)


def _check(wanted: str | None, device: int | None, name: str, adapter: Adapter) -> None:
    """Refuse arrays of another device than was asked for."""
    if wanted is None or backend_of(wanted).is_gpu == (device is not None):
        return
    if device is None:
        raise DeviceError(f'{name} is on the CPU, and backend="{wanted}" computes on a GPU; nothing is moved silently',
                          fix=f"{_move(name, adapter, 0)}, or leave backend= out to compute on the CPU")  # fmt: skip
    raise DeviceError(f"{name} is on cuda:{device}, and backend={wanted!r} computes on the CPU",
                      fix=f"{_move(name, adapter, None)}, or leave backend= out to compute on the GPU")  # fmt: skip


def planned_gpu() -> int:
    """The GPU for which programs are planned from shapes: the current one, and 0 where none can be used."""
    current = default_backend(0).current_device
    assert current is not None, "a GPU's backend has one"
    try:
        return current()
    except DeviceError:
        return 0


def _two_devices(one: tuple[str, Adapter], other: tuple[str, Adapter]) -> DeviceError:
    (name, adapter), (other_name, other_adapter) = sorted((one, other), key=lambda pair: pair[1].device is not None)
    target = other_adapter.device
    assert target is not None, "one of two devices is a GPU"
    return DeviceError(
        f"{name} is on {device_name(adapter)} and {other_name} is on {device_name(other_adapter)}: "
        "a program runs on one device, and nothing is moved silently",
        fix=_move(name, adapter, target),
    )


def _move(name: str, adapter: Adapter, device: int | None) -> str:
    """What to write for an array on another device, in the words of its library."""
    if device is None:
        return f"pass {name}.cpu()" if adapter.library == "torch" else f"pass cupy.asnumpy({name})"
    if adapter.library == "torch":
        return f'pass {name}.to("cuda:{device}")'
    return f"pass cupy.asarray({name})" + (f" under cupy.cuda.Device({device})" if device else "")
