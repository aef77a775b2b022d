"""Closed executables: what a program reads and runs, taken out of this process, and put together in another.

A closed program has the arrays that its steps read as constants, in the very form in which they are read, such as
packed, and not what they were made from. Its kernels come with their object code, and so do Zenith's own native
functions. So nothing is compiled, packed or planned where it is put together; but it must be the same Zenith, and a
processor with all the features that the code was made for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from zenith import sources
from zenith.backends.codec import StoredText
from zenith.backends.cpu import machine
from zenith.backends.cpu.executable import Executable
from zenith.backends.cpu.link import Linked, adopted_kernels, adopted_runtime, link_runtime
from zenith.backends.cpu.native import SYMBOLS, native
from zenith.backends.cpu.program import closed
from zenith.backends.cpu.stored import Stored
from zenith.backends.cpu.vectors import select
from zenith.errors import LoadError

_ZENITH = Path(__file__).resolve().parents[2]


def made_by() -> dict[str, str]:
    """What all saved programs of this process run with: this Zenith."""
    return {"zenith": sources.OWN.digest(_ZENITH)}


def made_for() -> dict[str, str]:
    """What closed executables of this process run with."""
    here = machine.processor()
    return {
        **made_by(), "triple": here["triple"], "cpu": here["cpu"],
        "instructions": select().name, "features": here["features"],
    }  # fmt: skip


def check(wanted: Mapping[str, str], name: str) -> None:
    """Raise LoadError unless what was made for ``wanted`` runs in this process; programs of a GPU name no processor."""
    if wanted.get("zenith") != made_by()["zenith"]:
        raise LoadError(f"{name} was saved by another version of Zenith", fix="save it again with this one")
    if "triple" not in wanted:
        return
    here = made_for()
    missing = _features(wanted) - _features(here)
    if wanted["triple"] != here["triple"] or missing:
        lacks = f", which lacks {', '.join(sorted(missing))}" if missing else ""
        raise LoadError(
            f"{name} was saved for {wanted['cpu']} ({wanted['triple']}), and this is {here['cpu']} "
            f"({here['triple']}){lacks}",
            fix="save it again on a machine of this kind",
        )
    if wanted["instructions"] != here["instructions"]:
        raise LoadError(
            f"{name} was saved for the instructions {wanted['instructions']}, and this process uses "
            f"{here['instructions']}",
            fix=f"set ZENITH_ISA={wanted['instructions']}, or save it again on a machine of this kind",
        )


def _features(of: Mapping[str, str]) -> set[str]:
    return {word[1:] for word in of["features"].split(",") if word.startswith("+")}


def runtime_code() -> bytes:
    """The object code of Zenith's own native functions."""
    return link_runtime(SYMBOLS).code


def adopt_runtime(code: bytes) -> None:
    """Have this process use that object code, unless it has linked its own already."""
    with adopted_runtime(SYMBOLS, code):
        native()


def closed_program(executable: Executable) -> Stored:
    """A closed copy of an executable, whose program does not call back into Python."""
    program = closed(executable.program, executable.fixed_arrays())
    return Stored(program, executable.stages, executable.groups, _codes(executable.kernels))


def open_program(executable: Executable) -> Stored:
    """A copy of an executable as it is, with weights and constants by name; loading it prepares what calls read."""
    program, sources = executable.program, executable.source_arrays()
    named = replace(program, constants={name: sources[name] for name in program.constants})
    weights = {weight.name: sources[name] for name, weight in program.weights.items()}
    stages: dict[str, str] = {stage: StoredText(text) for stage, text in executable.stages.items()}
    return Stored(named, stages, executable.groups, _codes(executable.kernels | executable.preparing), weights)


def _codes(linked: Mapping[str, Linked]) -> dict[str, bytes]:
    return {name: one.code for name, one in linked.items()}


@contextmanager
def adopted(stored: Stored) -> Iterator[None]:
    """Linking the program inside of this compiles nothing."""
    launches = [*stored.program.launches, *(prepared.launch for prepared in stored.program.prepared)]
    texts = {launch.kernel.name: launch.kernel.text for launch in launches}
    with adopted_kernels((name, text, stored.codes[name]) for name, text in texts.items()):
        yield
