"""Saving: the programs of a function as one file or folder, for :mod:`zenith.api.loading`.

The content is JSON that names no code: for each program how its calls look, its binding, its graph as text, and the
closed executable (:mod:`zenith.backends.cpu.closed`, and :mod:`zenith.backends.cuda.closed` for a GPU). Arrays and
object code follow it (:mod:`zenith.backends.archive`), each once, whichever programs share it. In a folder
(:mod:`zenith.backends.folder`) they are files of their own, and so are texts; its executables are not closed.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path

from zenith.api.forms import Form, Json, form_of, spell_nested
from zenith.api.signature import Signature
from zenith.api.specialize import Specialization, Specializer
from zenith.backends import folder
from zenith.backends.archive import Shelf, write
from zenith.backends.cpu.closed import made_by, made_for, take_out_open, take_out_runtime
from zenith.backends.routines import calls_outside
from zenith.backends.table import BACKENDS
from zenith.errors import UnsupportedError, ZenithError
from zenith.ir.numerics import Numerics
from zenith.tree import Leaf

_Program = tuple[Hashable, Sequence[str], Specialization]


def save(path: Path, front: str, name: str, signature: Signature, specializer: Specializer) -> None:
    """Write all programs of a function that ``front`` made; see :meth:`zenith.api.compilable.Compilable.save`."""
    programs = [(key, e.description, s) for key, e in specializer.entries() for s in e.specializations]
    _check(name, [s for _, _, s in programs])
    content = {"front": front, "name": name, "signature": signature.spelled()}
    if is_folder(path):
        _save_folder(path, content, programs)
        return
    shelf, numerics = Shelf(), specializer.numerics
    uses_cpu = any(s.device is None for _, _, s in programs)
    content["runtime"] = take_out_runtime(shelf.put) if uses_cpu else None
    content["programs"] = [
        _spelled(*program, program[-1].origin.text, _closed(program[-1], numerics, shelf)) for program in programs
    ]
    write(path, made_for() if uses_cpu else made_by(), content, shelf.arrays)


def is_folder(path: Path) -> bool:
    """Whether a path is one of a folder: it is one, or has no suffix."""
    return path.is_dir() or not (path.suffix or path.is_file())


def _save_folder(path: Path, content: Json, programs: Sequence[_Program]) -> None:
    """Texts, weights and object code as files of their own."""
    if any(s.device is not None for _, _, s in programs):
        raise UnsupportedError(f"{content['name']} has programs of a GPU, which a folder does not hold",
                               fix=f"save a file: {path}.zenith")  # fmt: skip
    shelf = folder.FolderShelf()
    content["runtime"] = take_out_runtime(lambda data: shelf.put(data, "runtime"))
    content["programs"] = []
    for number, (key, description, program) in enumerate(programs):
        end = f"-{number}" if number else ""
        spelled: Json = {"backend": program.where.backend} | take_out_open(program.executable, shelf.put)
        kinds = {stage: ".py" if stage == "kernels" else ".txt" for stage in spelled["stages"]}
        stages = {s: shelf.text(s + end + kinds[s], text) for s, text in spelled["stages"].items()}
        graph = shelf.text(f"graph{end}.txt", program.origin.text)
        content["programs"].append(_spelled(key, description, program, graph, spelled | {"stages": stages}))
    folder.write(path, made_for(), content, shelf)


def _check(name: str, programs: Sequence[Specialization]) -> None:
    if not programs:
        raise ZenithError(f"{name} has no compiled program to save", fix="call it first, once for each kind of call")
    for backend in {s.where.backend for s in programs}:
        if BACKENDS[backend].files is None:
            raise UnsupportedError(f"{name} is not compiled but run by the backend {backend!r}",
                                   fix='use backend="cpu"')  # fmt: skip
    if any(calls_outside(s.origin.graph) for s in programs):
        raise UnsupportedError(f"{name} calls back into Python or native code of yours, which a file does not hold",
                               fix="remove zenith.debug.print, callbacks and operations of your own")  # fmt: skip


def _spelled(key: Hashable, description: Sequence[str], program: Specialization, graph: Json, executable: Json) -> Json:
    form = form_of(key)
    return {
        "accepts": description,
        "form": None if form is None else form.spelled(),
        "leaves": [[kind.name, kind.dtype.name, kind.rank, kind.device] for kind in program.kinds],
        "result": program.origin.result.spelled(),
        "numbers": list(program.origin.result.numbers),
        "plain": _plain(program, form),
        "graph": graph,
        "binding": program.binding.spelled(),
        "executable": executable,
    }


def _plain(program: Specialization, form: Form | None) -> Json:
    """How arrays are nested in the call and in the result, in terms that need no library; None if that fails."""
    try:
        arguments = ([Leaf(i) for i in range(len(program.kinds))], {}) if form is None else form.nested()
        return [spell_nested([list(arguments[0]), arguments[1]]), spell_nested(program.origin.result.nested())]
    except UnsupportedError:
        return None


def _closed(program: Specialization, numerics: Numerics, shelf: Shelf) -> Json:
    files = BACKENDS[program.where.backend].files
    assert files is not None, "it was checked"
    saved = files.save(program.executable, program.origin.graph, numerics, shelf.put)
    return {"backend": program.where.backend} | saved
