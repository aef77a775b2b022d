"""Ejecting: a compiled program as one readable Python file that needs NumPy and Numba, and no Zenith.

The file has the program first (checks, sizes, memory, launches in order), then the kernels as ``show("kernels")``
prints them, then what their names mean to compiled code and how they are compiled. That is copied from Zenith's
own source files (:mod:`zenith.eject.bundle`), as little of it as the program needs, so that the machine code, and with
it every bit of a result, is the same.
"""

from __future__ import annotations

import importlib.metadata
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from zenith.backends.cpu import compiler
from zenith.backends.cpu.emit import CpuPrinter
from zenith.backends.cpu.executable import Executable
from zenith.backends.cpu.program import Launch
from zenith.backends.cpu.vectors import select
from zenith.backends.plan import Plan
from zenith.backends.steps import walk
from zenith.eject import runtime
from zenith.eject.bundle import Bundle
from zenith.eject.interface import Interface, LeafType
from zenith.eject.modules import Definition, Modules
from zenith.eject.names import MODULE, imports_of, names_module, replaced_modules, used_names
from zenith.eject.program import KERNELS, PROGRAM, ProgramWriter, in_docstring
from zenith.errors import ArgumentError, ZenithError
from zenith.files import check_replaceable, replacing

__all__ = ["Interface", "LeafType", "eject"]

SIGN = "Zenith wrote this file"  # in its docstring; the weights have it as the archive's comment
LONGEST_HEAD = 1 << 16  # bytes within which a program has the sign


def eject(path: Path, executable: Executable, plan: Plan, interface: Interface, graph: str, origin: str) -> None:
    """Write ``path``, and its constants and weights next to it with the suffix ``.npz``.

    ``plan`` is what the executable was linked from, ``graph`` the program's text, ``origin`` a sentence about its
    source. Raises UnsupportedError when the program's kernels use names of engines that are not Zenith's own,
    ZenithError when other files have these names, OSError when a file cannot be written.
    """
    weights = path.with_suffix(".npz")
    if weights == path:
        raise ArgumentError(f"{path} is the name of the weights, which go next to the program", fix="end it in .py")
    check_replaceable(path, is_program)
    sizes = {name: kernel.sizes for name, kernel in plan.kernels.items()}
    if not sizes.keys() >= {s.kernel.name for s in walk(executable.program.steps) if isinstance(s, Launch)}:
        raise ZenithError(
            "the program was planned with other engines than this process has now", fix="compile it again"
        )
    writer = ProgramWriter(executable.program, interface, sizes, executable.source_arrays())
    stored = writer.stored()
    if stored:
        check_replaceable(weights, are_weights)
    head = _head(path.name, origin, stored, graph)
    text = f"{head}\n{_bundled(writer, [CpuPrinter().kernel(kernel) for kernel in plan.kernels.values()])}"
    if stored:
        with replacing(weights, are_weights) as file:
            _write_npz(file, stored)
    with replacing(path, is_program) as file:
        file.write(text.encode())


def is_program(path: Path) -> bool:
    """Whether a file is one that was ejected: it begins with a docstring that says so."""
    with path.open("rb") as file:
        before, *docstring = file.read(LONGEST_HEAD).split(b'"""', 2)
    return not before and SIGN.encode() in docstring[0]


def are_weights(path: Path) -> bool:
    """Whether a file holds the weights of an ejected program."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.comment == SIGN.encode()
    except zipfile.BadZipFile:
        return False


def _bundled(writer: ProgramWriter, kernels: Sequence[str]) -> str:
    """The program with its kernels' sources and all that it needs, as the text of one module."""
    names = sorted({name for kernel in kernels for name in used_names(kernel)})
    doc = '"""The kernels. Each does the tasks from begin to before end; args is a block of addresses and sizes."""'
    texts = {
        PROGRAM: writer.text(),
        KERNELS: "\n".join([doc, *imports_of(names), *kernels]),
        MODULE: names_module(names),
        **replaced_modules(select().name),
    }
    modules = Modules(texts)
    registering = [MODULE, *modules.reachable(compiler.__name__, "zenith.backends.cpu.")]
    wanted = [Definition(PROGRAM, writer.public)]
    made = (PROGRAM, KERNELS, MODULE)
    return Bundle(modules, wanted, (PROGRAM, KERNELS, runtime.__name__), registering, made, writer.locals).text()


def _head(name: str, origin: str, stored: Mapping[str, Any], graph: str) -> str:
    note = (
        f"""
Weights and constants are in {in_docstring(Path(name).with_suffix(".npz").name)}, next to this file."""
        if stored
        else ""
    )
    versions = ", ".join(importlib.metadata.version(name) for name in ("numba", "llvmlite"))
    text = f'''"""{in_docstring(origin)}

{SIGN} and does not need to be there: NumPy and Numba do. Kernels are compiled at the first call, in the
same way as in Zenith. So results have the same bits as there, where the processor has the same instructions
({select().name}) and Numba and llvmlite the same versions ({versions}).{note}

In this order: the program, its kernels, what both run with, what the names of kernels mean to compiled code and how
that is compiled.
"""
'''
    comment = "\n".join(f"# {line}".rstrip() for line in graph.splitlines())
    return f"{text}\n# The graph from which the program was made:\n#\n{comment}\n\nfrom __future__ import annotations\n"


def _write_npz(file: BinaryIO, arrays: Mapping[str, Any]) -> None:
    """The arrays as an NPZ file; any text may be a name."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.comment = SIGN.encode()
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
