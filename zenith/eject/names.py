"""The names that kernels use, as modules of an ejected file: their definitions, and those that teach Numba each.

In Zenith these are tables and loops over element types and elementary functions. Here each is written out, for the
names that a program's kernels use, and a few definitions are replaced by what is constant in the file.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import symtable
from collections.abc import Iterable, Mapping
from types import ModuleType

from zenith import errors
from zenith.backends import scalars
from zenith.backends.cpu import buffers, compiler, prefix_scan, vectors
from zenith.backends.cpu import scalars as cpu_scalars
from zenith.backends.cpu.texts import TILE_FUNCTIONS
from zenith.backends.scalars import BUFFER, CONVERT, ELEMENTARY, LIBRARY, SCRATCH
from zenith.backends.vecmath import FUNCTIONS
from zenith.errors import UnsupportedError
from zenith.ir.types import BY_NAME

MODULE = "zenith.eject.made_names"
_ELEMENTARY = {
    **{name: name for name in ELEMENTARY},
    **{name: name.removeprefix("libm_") for name in LIBRARY},
    "power": "pow",
}
_INDICES = {"min": "least", "max": "greatest"}
_SHAPES = {"buffer": "args, slot, count", "scratch": "length"}
_DOC = """The names of kernels: Python functions in name only, to which compiled code gives a meaning.

What an element type's name, an elementary function or a prefix means is taught here, what others mean further down."""


def used_names(source: str) -> list[str]:
    """The names that a kernel's source uses besides its own and Python's ``range``."""
    scopes = symtable.symtable(source, "<kernel>", "exec").get_children()  # from Python 3.14 on, of annotations, too
    (function,) = (scope for scope in scopes if scope.get_type() == "function")
    return sorted(s.get_name() for s in function.get_symbols() if s.is_global() and s.get_name() != "range")


def imports_of(names: Iterable[str]) -> list[str]:
    """Import statements that give kernels their names."""
    found = []
    for name in names:
        if name in _INDICES:
            found.append(f"from {compiler.__name__} import {_INDICES[name]} as {name}")
        elif name in _taught(name):
            found.append(f"from {MODULE} import {name}")
        else:
            found.append(f"from {_home(name)} import {name}")
    return found


def names_module(names: Iterable[str]) -> str:
    """A module that defines the names of families, each with the code that teaches it to Numba."""
    definitions = {name: text for name in names for text in _taught(name).values()}
    lines = ["from numba.core import types", f"from {cpu_scalars.__name__} import NUMBA_TYPES, teach_converter"]
    lines += [f"from {buffers.__name__} import teach_buffer, teach_scratch"]
    lines += [f"from {cpu_scalars.__name__.replace('scalars', 'narrow')} import Narrow"]
    lines += ["from zenith.backends.cpu.vector_math import teach_elementary"]
    lines += ["from zenith.backends.cpu.prefix_scan_code import teach_prefix"]
    for name in definitions:
        body = FUNCTIONS[_ELEMENTARY[name]].body if name in _ELEMENTARY else None
        lines += [f"from {body.__module__} import {body.__name__} as {name}_body"] if body else []
    return "\n".join([f'"""{_DOC}"""', *lines, *definitions.values()]) + "\n"


def replaced_modules(isa: str) -> dict[str, str]:
    """Modules of Zenith with a few definitions replaced, by name."""
    select = f'''def select(name: str | None = None) -> InstructionSet:
    """The instruction set that this program was made for."""
    return TABLE["{isa}"]'''
    error = '''class CompileError(RuntimeError):
    """Kernels do not compile."""

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what + (f" ({fix})" if fix else ""))'''
    texts = {
        vectors.__name__: _replaced(vectors, {"select": select}),
        errors.__name__: _replaced(errors, {"CompileError": error}),
    }
    tiles = {f.__module__ for f in TILE_FUNCTIONS.values()}
    for name in (scalars.__name__, *sorted(tiles)):
        texts[name] = _stubs(name)
    return texts


def _taught(name: str) -> Mapping[str, str]:
    """The definition of a name of a family, by the name; empty for other names."""
    stem, _, shape = name.rpartition("_")
    if name in CONVERT:
        doc = f"The number as an element of type {BY_NAME[name].numpy_name}."
        return {name: _definition(name, "x", doc, f"teach_converter({name}, {_numba_type(name)})")}
    if name in BUFFER or name in SCRATCH:
        doc = (BUFFER | SCRATCH)[name].__doc__ or ""
        return {name: _definition(name, _SHAPES[shape], doc, f"teach_{shape}({name}, {_numba_type(stem)})")}
    if name in _ELEMENTARY:
        function = FUNCTIONS[_ELEMENTARY[name]]
        bounds = ", ".join(f"{bound} ulp in {dtype}" for dtype, bound in function.ulp.items())
        doc = f"The elementary function {name}, off by at most {bounds}."
        taught = f"teach_elementary({name}, {name}_body, {function.arity}, {function.branches}, {name in LIBRARY})"
        return {name: _definition(name, ", ".join("xyz"[: function.arity]), doc, taught)}
    if name in prefix_scan.RUNNING_FUNCTIONS:
        arguments = "LANES, to, to_at, source, at, count, before"
        doc = prefix_scan.RUNNING_FUNCTIONS[name].__doc__ or ""
        return {name: _definition(name, arguments, doc, f'teach_prefix("{name}", {name})')}
    return {}


def _definition(name: str, arguments: str, doc: str, taught: str) -> str:
    return f'\ndef {name}({arguments}):\n    """{doc}"""\n\n\n{taught}'


def _numba_type(name: str) -> str:
    """How an element type is written for Numba."""
    dtype = BY_NAME[name]
    return f'Narrow("{name}")' if dtype.is_narrow else f"types.{dtype.numpy_name.replace('bool', 'boolean')}"


def _home(name: str) -> str:
    """The module that defines a name of kernels."""
    if name in TILE_FUNCTIONS:
        return str(TILE_FUNCTIONS[name].__module__)
    if name in scalars.NAMESPACE:
        return scalars.__name__
    raise UnsupportedError(f"a kernel uses the name {name}, which no source of Zenith defines",
                           fix="leave out engines of your own: ZENITH_ENGINES=-name")  # fmt: skip


def _replaced(module: ModuleType, texts: Mapping[str, str]) -> str:
    """A module's text with some definitions replaced."""
    source = inspect.getsource(module)
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in texts:
            lines[node.lineno - 1 : node.end_lineno] = texts[node.name].splitlines()
    return "\n".join(lines) + "\n"


def _stubs(module: str) -> str:
    """A module's text with the functions of kernels as stubs: their name, parameters and docstring.

    Other functions stay: the lowering of kernels calls some, such as that for a tile's prefetch distance.
    """
    source = inspect.getsource(importlib.import_module(module))
    lines = source.splitlines()
    for node in reversed(ast.parse(source).body):
        called = module == scalars.__name__ or getattr(node, "name", "") in TILE_FUNCTIONS
        if isinstance(node, ast.FunctionDef) and ast.get_docstring(node) and called:
            del lines[node.body[0].end_lineno or 0 : node.end_lineno]
            for decorator in reversed(node.decorator_list):
                del lines[decorator.lineno - 1 : decorator.end_lineno]
    return "\n".join(lines) + "\n"
