"""Loading: ``zenith.load`` makes what ``save`` wrote callable, in a fraction of a second and without its source.

A file holds machine code: load only what you would also run as a program. It is read by mapping it into memory, so it
must not be written to while somebody uses it; ``save`` never does, it replaces the file by another.
"""

from __future__ import annotations

import copyreg
import importlib.util
from collections.abc import Callable
from pathlib import Path

from zenith.api.loading import Loaded, LoadedFunction
from zenith.api.plain_loading import PlainModule
from zenith.api.saving import SavedFunction, read
from zenith.backends.archive import MALFORMED, damaged
from zenith.backends.cpu.closed import check
from zenith.errors import ArgumentError, ZenithError


def load(path: str | Path, arrays: str | None = None) -> Loaded:
    """The function or module that ``compiled.save(path)`` wrote: call it in the same way, with the same results.

    It runs the saved programs and never compiles; Numba is not imported, and torch only for what takes tensors.
    Weights and captured arrays are those of the moment of saving, and are read where the file is mapped.

    A module takes and gives tensors where torch is installed, NumPy arrays elsewhere and with ``arrays="numpy"``.

    Programs of a GPU are planned again, from the same graph by the same Zenith, and run the file's machine code; their
    weights are copied to the device once.

    Raises LoadError when the file or folder is damaged, or was saved by another version of Zenith or for another kind
    of processor or GPU, DeviceError when it needs a GPU and none can be used, OSError when it cannot be opened.
    """
    if arrays not in (None, "numpy"):
        raise ArgumentError(f"arrays is {arrays!r}", fix='leave it out, or say arrays="numpy"')
    path = Path(path)
    try:
        archive = read(path)
        check(archive.made_for, str(path))
        kind = _kind(archive.content, arrays)
        copyreg.pickle(kind, _reduced)  # here, where the kind is known: that of modules is imported with torch only
        loaded = kind(path, archive.content)
    except MALFORMED as error:
        if isinstance(error, ZenithError):
            raise
        raise damaged(path, f"its contents are not what save() writes ({type(error).__name__}: {error})") from error
    loaded.given = arrays
    return loaded


def _reduced(loaded: Loaded) -> tuple[Callable[..., Loaded], tuple[Path, str | None]]:
    """Another process loads the same file."""
    return load, (loaded.path.absolute(), loaded.given)


def _kind(saved: SavedFunction, arrays: str | None) -> type[Loaded]:
    if saved.front == "jit":
        return LoadedFunction
    if arrays == "numpy" or importlib.util.find_spec("torch") is None:
        return PlainModule
    from zenith.torch.loaded import LoadedModule

    return LoadedModule
