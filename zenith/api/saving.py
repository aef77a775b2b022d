"""Saving: the programs of a function as one file or folder, for :mod:`zenith.api.loading`.

What is stored is a record that names no code (:mod:`zenith.backends.codec`): for each program how its calls look, its
binding, its graph as text, and the executable with its arrays and object code (:mod:`zenith.backends.cpu.closed`, and
:mod:`zenith.backends.cuda.closed` for a GPU). In a file (:mod:`zenith.backends.archive`) arrays and code follow, each
once, whichever programs share it. In a folder (:mod:`zenith.backends.folder`) they are files of their own, and so are
texts; its executables are not closed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path

from zenith.api.binding import Binding
from zenith.api.devices import Where
from zenith.api.forms import Form, form_of, mapped
from zenith.api.leaves import LeafKind
from zenith.api.programs import Specialization
from zenith.api.signature import Signature
from zenith.api.specialize import Specializer
from zenith.backends import archive, folder
from zenith.backends.archive import Archive
from zenith.backends.codec import StoredText, encode, record
from zenith.backends.cpu.closed import made_by, made_for, open_program, runtime_code
from zenith.backends.cpu.stored import Stored
from zenith.backends.cuda.stored import CudaProgram
from zenith.backends.routines import calls_outside
from zenith.backends.table import BACKENDS
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.numerics import Numerics
from zenith.tree import Leaf


@record
@dataclass(frozen=True, slots=True)
class SavedProgram:
    """One program.

    Attributes
    ----------
    accepts: what it takes, for messages.
    form: the text of the form of its calls; None for positional arrays and numbers alone.
    dynamic: the paths of Python numbers in a module's calls that are inputs.
    leaves: the kinds of arrays and numbers that it takes.
    result, numbers, of_python: the structure of what it returns, and which of it are NumPy's scalars and Python's.
    plain: the structures of arguments and result in terms that need no library, None where there are none.
    graph, binding, where, executable: the program.
    """

    accepts: tuple[str, ...]
    form: str | None
    dynamic: tuple[str, ...]
    leaves: tuple[LeafKind, ...]
    result: object
    numbers: tuple[int, ...]
    of_python: tuple[int, ...]
    plain: tuple[object, object] | None
    graph: StoredText
    binding: Binding
    where: Where
    executable: Stored | CudaProgram


@record
@dataclass(frozen=True, slots=True)
class SavedFunction:
    """All programs of a function that ``front`` made; ``runtime`` is the object code that programs of the CPU share."""

    front: str
    name: str
    signature: Signature
    runtime: bytes | None
    programs: tuple[SavedProgram, ...]


def save(path: Path, front: str, name: str, signature: Signature, specializer: Specializer) -> None:
    """Write all programs of a function that ``front`` made; see :meth:`zenith.api.compilable.Compilable.save`."""
    programs = [(key, e.description, s) for key, e in specializer.entries() for s in e.specializations]
    _check(name, [s for _, _, s in programs])
    is_open, uses_cpu = is_folder(path), any(s.device is None for _, _, s in programs)
    if is_open and any(s.device is not None for _, _, s in programs):
        raise UnsupportedError(f"{name} has programs of a GPU, which a folder does not hold",
                               fix=f"save a file: {path}.zenith")  # fmt: skip
    saved = SavedFunction(
        front,
        name,
        signature,
        runtime_code() if uses_cpu else None,
        tuple(_saved(*program, specializer.numerics, is_open) for program in programs),
    )
    write = folder.write if is_open else archive.write
    write(path, made_for() if uses_cpu else made_by(), saved)


def read(path: Path) -> Archive[SavedFunction]:
    """What :func:`save` wrote, a file or a folder; LoadError when it is damaged, OSError when it cannot be opened."""
    return (folder.read if path.is_dir() else archive.read)(path, SavedFunction)


def is_folder(path: Path) -> bool:
    """Whether a path is one of a folder: it is one, or has no suffix."""
    return path.is_dir() or not (path.suffix or path.is_file())


def _check(name: str, programs: Sequence[Specialization]) -> None:
    if not programs:
        raise ZenithError(f"{name} has no compiled program to save", fix="call it first, once for each kind of call")
    for backend in {s.where.backend for s in programs}:
        if BACKENDS[backend].files is None:
            raise UnsupportedError(f"{name} is not compiled but run by the backend {backend!r}",
                                   fix='use backend="cpu"')  # fmt: skip
    if any(s.computed is not None for s in programs):
        raise UnsupportedError(f"{name} returns arrays whose sizes depend on values, which a saved program does not",
                               fix="give the size: zenith.numpy.extract(mask, x, size=n)")  # fmt: skip
    if any(s.raised for s in programs):
        raise UnsupportedError(f"{name} raises exceptions that values decide, which a saved program does not",
                               fix="check the values with zenith.error_if(x, wrong, why)")  # fmt: skip
    if any(s.writes is not None for s in programs):
        raise UnsupportedError(f"{name} writes into its arguments, which a saved program does not",
                               fix="copy what it writes, x = x.copy(), and return it")  # fmt: skip
    if any(calls_outside(s.origin.graph) for s in programs):
        raise UnsupportedError(f"{name} calls back into Python or native code of yours, which a file does not hold",
                               fix="remove zenith.debug.print, callbacks and operations of your own")  # fmt: skip


def _saved(
    key: Hashable, accepts: Sequence[str], program: Specialization, numerics: Numerics, is_open: bool
) -> SavedProgram:
    form, origin = form_of(key), program.origin
    files = BACKENDS[program.where.backend].files
    assert files is not None, "it was checked"
    executable = program.executable
    return SavedProgram(
        tuple(accepts),
        None if form is None else form.text(),
        () if form is None else form.dynamic,
        program.kinds,
        origin.result.stored(),
        tuple(origin.result.numbers),
        tuple(origin.result.of_python),
        _plain(program, form),
        StoredText(origin.text),
        origin.binding,
        program.where,
        open_program(executable) if is_open else files.save(executable, origin.graph, numerics),
    )


def _plain(program: Specialization, form: Form | None) -> tuple[object, object] | None:
    try:
        args, kwargs = (map(Leaf, range(len(program.kinds))), {}) if form is None else form.nested()
        plain = (
            mapped([list(args), kwargs], lambda leaf: leaf),
            mapped(program.origin.result.nested(), lambda leaf: leaf),
        )
        encode(plain)
    except UnsupportedError:
        return None
    return plain
