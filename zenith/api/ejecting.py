"""Ejecting from the user's side: which program, how it is called, and why some cannot be ejected.

:mod:`zenith.eject` writes the file.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path

from zenith import tree
from zenith.api.binding import SourceGuard
from zenith.api.forms import form_of
from zenith.api.programs import Specialization
from zenith.api.signature import Signature
from zenith.api.specialize import Specializer
from zenith.backends.routines import calls
from zenith.backends.steps import CallStep, walk
from zenith.eject import Interface, LeafType
from zenith.eject import eject as write
from zenith.errors import SourceLine, UnsupportedError, ZenithError
from zenith.ir.lowering import NativeCall
from zenith.ir.types import ArrayType


def only_program(name: str, specializer: Specializer) -> tuple[Hashable, Specialization]:
    """The one program of a function, with its key; ZenithError unless there is just one."""
    found = [(key, entry.description, s) for key, entry in specializer.entries() for s in entry.specializations]
    if not found:
        raise ZenithError(f"{name} has no compiled program to eject", fix="call it first")
    if len(found) > 1:
        calls = "".join(f"\n  ({', '.join(description)})" for _, description, _ in found)
        raise ZenithError(f"{name} has {len(found)} compiled programs, and a file holds one:{calls}",
                          fix="choose one by its arguments: fn.lower(*args).compile().eject(path)")  # fmt: skip
    key, _, program = found[0]
    return key, program


def eject(
    path: Path,
    name: str,
    signature: Signature,
    key: Hashable,
    program: Specialization,
    function: Callable[..., object],
) -> None:
    """Write one program of a function; ``function`` is what the user wrote."""
    _check(name, program)
    form = form_of(key)
    args: Sequence[object] = [tree.Leaf(i) for i in range(len(program.kinds))]
    args, kwargs = (args, {}) if form is None else form.nested()
    public = tree.identifier(name) + ("_" if hasattr(builtins, tree.identifier(name)) else "")
    plain = signature.positional[: len(args)]
    interface = Interface(
        name=public,
        doc=inspect.getdoc(function) or "",
        parameters=plain,
        variadic=signature.variadic if len(args) > len(plain) else "",
        args=args,
        kwargs=kwargs,
        result=program.origin.result.nested(),
        leaves=[LeafType(kind.dtype, kind.rank, kind.name == "number") for kind in program.kinds],
        shapes=program.binding.shapes,
        definitions=program.binding.definitions,
        sizes=program.binding.numbers,
        conditions=[(c.source, _meaning(c), _error(c)) for c in program.binding.conditions],
        numbers=program.origin.result.numbers,
        of_python=program.origin.result.of_python,
    )
    origin = program.origin
    write(path, program.executable, origin.plan, interface, origin.text, f"{interface.name}: {_from(function)}")


def _check(name: str, program: Specialization) -> None:
    if program.device is not None:
        raise UnsupportedError(f"{name} is compiled for a GPU, whose kernels an ejected file does not hold",
                               fix="call it with arrays of the CPU, and eject that program")  # fmt: skip
    if not hasattr(program.executable, "source_arrays"):
        raise UnsupportedError(f"{name} is not compiled to machine code", fix='use backend="cpu"')
    if program.computed is not None:
        raise UnsupportedError(f"{name} returns arrays whose sizes depend on values, which an ejected file does not",
                               fix="give the size: zenith.numpy.extract(mask, x, size=n)")  # fmt: skip
    if program.raised:
        raise UnsupportedError(f"{name} raises exceptions that values decide, which an ejected file does not",
                               fix="check the values with zenith.error_if(x, wrong, why)")  # fmt: skip
    if program.writes is not None:
        raise UnsupportedError(f"{name} writes into its arguments, which an ejected file does not",
                               fix="copy what it writes, x = x.copy(), and return it")  # fmt: skip
    graph = program.origin.graph
    for called, line in _outside(program):
        raise UnsupportedError(f"{name} calls {called}, Python or native code that is no kernel", where=line,
                               fix="call that outside of the function")  # fmt: skip
    types = [value.type for value in (*graph.inputs, *graph.outputs)]
    if any(isinstance(type, ArrayType) and type.dtype.is_extension for type in types):
        raise UnsupportedError(f"{name} takes or returns bfloat16 arrays, which NumPy has not",
                               fix="convert them to float32 outside or inside of the function")  # fmt: skip


def _outside(program: Specialization) -> Iterator[tuple[str, SourceLine | None]]:
    """What a program calls besides kernels, and the lines that do."""
    for step in walk(program.origin.plan.steps):
        if isinstance(step, CallStep):
            yield step.routine.name, next(iter(step.lines), None)
    for node in calls(program.origin.graph):
        if isinstance(node.primitive.lowering, NativeCall):
            yield node.params["function"].label, node.line


def _error(condition: SourceGuard) -> type[Exception]:
    """Python's class of the error that a call without the condition raises."""
    return IndexError if issubclass(condition.raises, IndexError) else ValueError


def _meaning(condition: SourceGuard) -> str:
    """What a condition on sizes is for, as an error says it."""
    location = f" ({condition.line})" if condition.line else ""
    if condition.required:
        return f"{condition.reason or 'sizes do not fit'}{location}: {condition.source}"
    return f"the program is made for sizes with {condition.source}{location}, which"


def _from(function: Callable[..., object]) -> str:
    """Where a function or a module's class was written."""
    try:
        file, line = inspect.getsourcefile(function), inspect.getsourcelines(function)[1]
    except (TypeError, OSError):
        return "a compiled program."
    return f"the program compiled from {Path(file or '').name}, line {line}."
