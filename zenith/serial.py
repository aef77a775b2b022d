"""Loading: ``zenith.load`` makes what ``save`` wrote callable, in a fraction of a second and without its source.

A file holds machine code: load only what you would also run as a program. It is read by mapping it into memory, so it
must not be written to while somebody uses it; ``save`` never does, it puts another file in its place.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from pathlib import Path

from zenith.api.loading import Loaded, LoadedFunction
from zenith.backends.archive import Archive, read
from zenith.backends.cpu.closed import check


def load(path: str | Path) -> Loaded:
    """The function or module that ``compiled.save(path)`` wrote: call it in the same way, with the same results.

    It runs the saved programs and never compiles; Numba is not imported, and torch only for what takes tensors.
    Weights and captured arrays are those of the moment of saving, and are read where the file is mapped.

    Programs of a GPU are planned again, from the same graph by the same Zenith, and run the file's machine code; their
    weights are copied to the device once.

    Raises LoadError when the file is damaged, or was saved by another version of Zenith or for another kind of
    processor or GPU, DeviceError when it needs a GPU and none can be used, OSError when it cannot be opened.
    """
    archive = read(Path(path))
    check(archive.made_for, str(path))
    kind = _kind(archive)
    copyreg.pickle(kind, _reduced)  # here, where the kind is known: that of modules is imported with torch only
    return kind(archive)


def _reduced(loaded: Loaded) -> tuple[Callable[[Path], Loaded], tuple[Path]]:
    """Another process loads the same file."""
    return load, (loaded.path.absolute(),)


def _kind(archive: Archive) -> type[Loaded]:
    if archive.content["front"] == "jit":
        return LoadedFunction
    from zenith.torch.loaded import LoadedModule

    return LoadedModule
