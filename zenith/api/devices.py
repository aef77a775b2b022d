"""Where a call runs: on the device of its arrays, which is one. Nothing is moved silently.

>>> import numpy as np
>>> choose(None, [("x", np.ones(3)), ("k", 2.5)])
Where(backend='cpu', device=None)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zenith.api.leaves import adapter_of, is_number
from zenith.arrays import Adapter, place_of
from zenith.errors import DeviceError
from zenith.ir.target import TRAFFIC


@dataclass(frozen=True, slots=True)
class Where:
    """A backend (one of :data:`zenith.compile.BACKENDS`), and the number of the GPU for ``cuda``."""

    backend: str
    device: int | None = None

    @property
    def traffic(self) -> int:
        """What memory traffic costs there (:data:`zenith.ir.target.TRAFFIC`)."""
        return TRAFFIC["cuda" if self.backend == "cuda" else "cpu"]


def choose(wanted: str | None, leaves: Iterable[tuple[str, Any]], abstract: bool = False) -> Where:
    """Where a call runs with these leaves, given with their names; ``wanted`` is the backend that was asked for.

    With ``abstract`` some leaves only stand for arrays, on :func:`planned_gpu`, and no GPU has to be there.

    Raises DeviceError when arrays stand on several devices or on another one than was asked for, and when a GPU is
    asked for and cannot be used.
    """
    if abstract:
        return Where(wanted or "cpu", planned_gpu() if wanted == "cuda" else None)
    arrays = [(name, adapter_of(leaf)) for name, leaf in leaves if not is_number(leaf)]
    return choose_for(wanted, arrays)


def choose_for(wanted: str | None, arrays: Iterable[tuple[str, Adapter]]) -> Where:
    """The same for the adapters of arrays."""
    first: dict[int | None, tuple[str, Adapter]] = {}
    for name, adapter in arrays:
        first.setdefault(adapter.device, (name, adapter))
    if wanted == "cuda":
        require_gpu()
    if len(first) > 1:
        raise _two_devices(*list(first.values())[:2])
    for device, (name, adapter) in first.items():
        _check(wanted, device, name, adapter)
    device = next(iter(first), None)
    if wanted == "cuda" and device is None:
        from zenith.backends.cuda.driver import driver

        device = driver().device()
    return Where(wanted or ("cpu" if device is None else "cuda"), device)


def _check(wanted: str | None, device: int | None, name: str, adapter: Adapter) -> None:
    """Refuse arrays of another device than was asked for."""
    if wanted == "cuda" and device is None:
        raise DeviceError(f'{name} is on the CPU, and backend="cuda" computes on a GPU; nothing is moved silently',
                          fix=f"{_move(name, adapter, 0)}, or leave backend= out to compute on the CPU")  # fmt: skip
    if wanted not in (None, "cuda") and device is not None:
        raise DeviceError(f"{name} is on cuda:{device}, and backend={wanted!r} computes on the CPU",
                          fix=f"{_move(name, adapter, None)}, or leave backend= out to compute on the GPU")  # fmt: skip


def planned_gpu() -> int:
    """The GPU for which programs are planned from shapes: the current one, and 0 where none can be used."""
    from zenith.backends.cuda.driver import driver

    try:
        return driver().device()
    except DeviceError:
        return 0


def require_gpu() -> None:
    """Raise DeviceError when there is no GPU that can be used, with the reason and the fix."""
    from zenith.backends.cuda.driver import driver

    driver()


def _two_devices(one: tuple[str, Adapter], other: tuple[str, Adapter]) -> DeviceError:
    (name, adapter), (other_name, other_adapter) = sorted((one, other), key=lambda pair: pair[1].device is not None)
    target = other_adapter.device
    assert target is not None, "one of two devices is a GPU"
    return DeviceError(
        f"{name} is on {place_of(adapter)} and {other_name} is on {place_of(other_adapter)}: a program runs on one "
        "device, and nothing is moved silently",
        fix=_move(name, adapter, target),
    )


def _move(name: str, adapter: Adapter, device: int | None) -> str:
    """What to write for an array on another device, in the words of its library."""
    if device is None:
        return f"pass {name}.cpu()" if adapter.library == "torch" else f"pass cupy.asnumpy({name})"
    if adapter.library == "torch":
        return f'pass {name}.to("cuda:{device}")'
    return f"pass cupy.asarray({name})" + (f" under cupy.cuda.Device({device})" if device else "")
