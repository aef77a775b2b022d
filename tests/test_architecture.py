"""The structure of the project, checked by an ordinary test: layers, libraries, sizes, docstrings, locks, types.

The checks read source text by :mod:`ast`, so they see every import at any depth, run or not. Each is a function from
sources to violations; the tests at the end prove on small made-up sources that each of them can fail.
"""

import ast
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Imports point down only: a room may use its own layer and those below.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {
            "torch",
            "generation",
            "quantization",
            "precisions",
            "accuracy",
            "batches",
            "serial",
            "ahead",
            "cli",
            "__main__",
        }
    ),
    frozenset({"kernels", "outside", "tune"}),
    frozenset({"api"}),
    frozenset({"compile", "device", "eject", "memory"}),
    frozenset({"nn", "optim", "convert"}),
    frozenset({"transforms", "control", "random", "numpy", "trace", "debug", "checks"}),
    frozenset({"passes", "backends", "arrays"}),
    frozenset({"ir"}),
    frozenset(
        {
            "tree",
            "annotations",
            "errors",
            "config",
            "collection",
            "temporary",
            "files",
            "forking",
            "interrupts",
            "progress",
            "sources",
            "cached",
        }
    ),
)
# Rooms of one layer that nevertheless never see each other.
STRANGERS = ({"passes", "backends"},)
# Rooms inside of others: what both share is in the outer one, which names the inner one on its public face alone.
INNER = ("zenith.torch.dynamo",)

# Who may import a library. `arrays` holds an adapter for each kind of array and imports its library on demand.
LIBRARIES: dict[str, tuple[str, ...]] = {
    "networkx": ("zenith.ir.networkx_view", "zenith.ir.cut"),
    "numba": ("zenith.backends.cpu", "zenith.backends.cuda"),
    "llvmlite": ("zenith.backends.cpu", "zenith.backends.cuda"),
    "cupy": ("zenith.backends.cuda",),
    "cuda": ("zenith.backends.cuda",),
    "nvmath": ("zenith.backends.cuda.cublaslt",),
    "cudnn": ("zenith.backends.cuda.cudnn",),
    "torch": ("zenith.torch",),
}
LAZY_IN_ARRAYS = frozenset({"torch", "cupy"})
# Libraries that a bare `import zenith` must not load: slow, or absent on many machines.
NOT_AT_IMPORT = ("torch", "cupy", "matplotlib", "jax", "networkx")

MAX_FILE_LINES, MAX_FUNCTION_LINES = 700, 80  # more is an error
LONG_FILE_LINES, LONG_FUNCTION_LINES = 400, 50  # more is a warning: cut by meaning where there is one to cut by

# Every module-level lock of zenith/: its name, and what it guards. A lock belongs to state shared by threads.
LOCKS = {
    "zenith.backends.cpu.threads._guard": "the one thread team of the process, and its start",
    "zenith.backends.cuda.driver._guard": "the one driver of the process, while it is made",
    "zenith.backends.cuda.functions._lock": "the functions that are loaded on devices, which programs share",
    "zenith.backends.cuda.memory._guard": "the one pool of the process, while it is made",
    "zenith.eject.runtime._lock": "the kernels of an ejected file that are compiled (in that file, not in Zenith)",
}
LOCK_TYPES = frozenset({"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"})

MOST_ANY = 25  # how often `Any` may stand in 1 000 lines of a room
# Rooms where it stands more often: how often it does. Who lowers a figure writes the new one, or takes the room out.
MORE_ANY = {
    "backends.cuda": 26,
    "checks": 34,
    "tree": 44,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Import:
    """One import: the full name of the module, the line, and whether it runs only when a function is called."""

    target: str
    line: int
    lazy: bool


def sources(*folders: str) -> dict[str, str]:
    """Module name -> text, for every Python file below the folders."""
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path.read_text(encoding="utf-8")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
    }


def plain(module: str) -> str:
    """``zenith.ir.__init__`` -> ``zenith.ir``."""
    return module.removesuffix(".__init__")


@cache
def parsed(text: str) -> ast.Module:
    """A file's syntax tree, which many checks read."""
    return ast.parse(text)


@cache
def imports(module: str, text: str) -> tuple[Import, ...]:
    """Every import of a module, by `importlib.import_module("...")` too; those for type checkers only are left out."""
    return tuple(_imports(module, text))


def _imports(module: str, text: str) -> Iterator[Import]:
    pending: list[tuple[ast.AST, bool]] = [(parsed(text), False)]
    while pending:
        node, lazy = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            pending.extend((child, lazy) for child in node.orelse)
            continue
        for target in _targets(module, node):
            yield Import(target, getattr(node, "lineno", 0), lazy)
        inside = lazy or isinstance(node, Function)
        pending.extend((child, inside) for child in ast.iter_child_nodes(node))


def _targets(module: str, node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.split(".")[: -node.level]  # `__init__` counts as a component of its own
            base = ".".join([*package, *([base] if base else [])])
        return [f"{base}.{alias.name}" for alias in node.names]
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if name in ("import_module", "__import__") and isinstance(node.args[0].value, str):
            return [node.args[0].value]
    return []


def room(module: str) -> str:
    """``zenith.ir.dims`` -> ``ir``; the empty string for ``zenith`` itself."""
    names = plain(module).split(".")
    return names[1] if len(names) > 1 else ""


def layer(name: str) -> int | None:
    """The number of a room's layer, counted from the top; None when it has none."""
    return next((i for i, rooms in enumerate(LAYERS) if name in rooms), None)


def layer_violations(files: Mapping[str, str]) -> list[str]:
    """Imports that point up, rooms of one layer that must not meet, rooms without a layer."""
    found = []
    for module, text in files.items():
        here = room(module)
        if here == "":
            continue  # zenith/__init__.py may name everything
        if layer(here) is None:
            found.append(f"{module}: the room `{here}` is in no layer; add it to LAYERS")
            continue
        for item in imports(module, text):
            if item.target.split(".")[0] == "zenith" and (why := _forbidden(here, room(item.target))):
                found.append(f"{module}:{item.line} imports {item.target}: {why}")
    return found


def _forbidden(here: str, there: str) -> str:
    mine, theirs = layer(here), layer(there)
    if mine == 0 and theirs is None:
        return ""  # the front doors may use the public face
    if theirs is None:
        return "the public face is for users, not for the inside"
    if mine is not None and theirs < mine:
        return f"`{there}` is above `{here}`"
    if here != there and any({here, there} <= pair for pair in STRANGERS):
        return f"`{here}` and `{there}` never import each other"
    return ""


def inner_violations(files: Mapping[str, str]) -> list[str]:
    """Imports from an inner room in the room around it."""
    found = []
    for inner in INNER:
        outer = inner.rpartition(".")[0]
        around = [m for m in files if m.startswith(f"{outer}.") and not f"{m}.".startswith(f"{inner}.")]
        for module in around:
            targets = [
                item.target for item in imports(module, files[module]) if f"{item.target}.".startswith(f"{inner}.")
            ]
            found += [f"{module} imports {target}, from the room inside" for target in targets]
    return found


def library_violations(files: Mapping[str, str]) -> list[str]:
    """Libraries imported where they do not belong."""
    found = []
    for module, text in files.items():
        for item in imports(module, text):
            library = item.target.split(".")[0]
            owners = LIBRARIES.get(library)
            if owners is None or any(f"{plain(module)}.".startswith(f"{owner}.") for owner in owners):
                continue
            if room(module) == "arrays" and library in LAZY_IN_ARRAYS and item.lazy:
                continue
            found.append(f"{module}:{item.line} imports {library}, which belongs to {' and '.join(owners)}")
    return found


def import_cycles(files: Mapping[str, str]) -> list[str]:
    """Modules that reach themselves through imports at module level."""
    names = {plain(module) for module in files}
    graph = {
        plain(module): {_module_of(item.target, names) for item in imports(module, text) if not item.lazy}
        for module, text in files.items()
        if room(module)
    }
    found, done = [], set[str]()
    for start in graph:
        stack, path = [(start, iter(graph[start]))], [start]
        while stack:
            following = next((n for n in stack[-1][1] if n in graph and n not in done), None)
            if following is None:
                done.add(stack.pop()[0])
                path.pop()
            elif following in path:
                if following != path[-1]:
                    found.append(" -> ".join([*path[path.index(following) :], following]))
            else:
                stack.append((following, iter(graph[following])))
                path.append(following)
    return found


def _module_of(target: str, names: set[str]) -> str:
    """The module that a `from m import name` loads: `m.name` when that is a module, else `m`."""
    return target if target in names else target.rpartition(".")[0]


def size_violations(
    files: Mapping[str, str], file_lines: int = MAX_FILE_LINES, function_lines: int = MAX_FUNCTION_LINES
) -> list[str]:
    """Files and functions that are too long to read at once."""
    found = []
    for module, text in files.items():
        if (lines := len(text.splitlines())) > file_lines:
            found.append(f"{module}: {lines} lines, at most {file_lines}")
        for node in ast.walk(parsed(text)):
            if isinstance(node, Function):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > function_lines:
                    found.append(f"{module}:{node.lineno} {node.name}: {length} lines, at most {function_lines}")
    return found


def docstring_violations(files: Mapping[str, str]) -> list[str]:
    """Modules, public classes and public functions that do not say what they are."""
    found = []
    for module, text in files.items():
        tree = parsed(text)
        if not ast.get_docstring(tree):
            found.append(f"{module}: the module has no docstring")
        for node in tree.body:
            if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
                overload = any(getattr(d, "id", "") == "overload" for d in node.decorator_list)
                if not overload and not ast.get_docstring(node):
                    found.append(f"{module}:{node.lineno} {node.name}: no docstring")
    return found


def swallowed_exceptions(files: Mapping[str, str]) -> list[str]:
    """``except:`` of everything, and handlers of every exception that do nothing."""
    found = []
    for module, text in files.items():
        for node in ast.walk(parsed(text)):
            if not isinstance(node, ast.ExceptHandler):
                continue
            broad = node.type is None or getattr(node.type, "id", "") in ("Exception", "BaseException")
            silent = all(isinstance(s, ast.Pass | ast.Continue | ast.Break) for s in node.body)
            if node.type is None or (broad and silent):
                found.append(f"{module}:{node.lineno} swallows every exception")
    return found


def module_locks(files: Mapping[str, str]) -> dict[str, list[str]]:
    """Name of every module-level lock -> the lines that take it while the module is imported."""
    found: dict[str, list[str]] = {}
    for module, text in files.items():
        body = parsed(text).body
        names = {name for statement in body for name in _assigned_locks(statement)}
        found.update({f"{plain(module)}.{name}": [] for name in names})
        for statement in body:
            if isinstance(statement, Function | ast.ClassDef):
                continue
            for name in names & _taken(statement):
                found[f"{plain(module)}.{name}"].append(f"{module}:{statement.lineno}")
    return found


def _assigned_locks(statement: ast.stmt) -> Iterator[str]:
    value = getattr(statement, "value", None)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or not isinstance(value, ast.Call):
        return
    if getattr(value.func, "attr", getattr(value.func, "id", "")) in LOCK_TYPES:
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def _taken(statement: ast.stmt) -> set[str]:
    names = set[str]()
    for node in ast.walk(statement):
        if isinstance(node, ast.With):
            names |= {item.context_expr.id for item in node.items if isinstance(item.context_expr, ast.Name)}
        if isinstance(node, ast.Attribute) and node.attr == "acquire" and isinstance(node.value, ast.Name):
            names.add(node.value.id)
    return names


def any_violations(files: Mapping[str, str], more: Mapping[str, int] = MORE_ANY) -> list[str]:
    """Rooms that leave more types open than they may: those of `backends` have a room for each folder."""
    lines, found = Counter[str](), Counter[str]()
    for module, text in files.items():
        names = module.split(".")
        name = ".".join(names[1:3] if names[1] == "backends" and len(names) > 3 else names[1:2])
        lines[name] += len(text.splitlines())
        found[name] += len(re.findall(r"\bAny\b", text))
    limits = {name: more.get(name, MOST_ANY) for name in lines}
    return [
        f"{name}: {found[name]} times `Any` in {lines[name]} lines, at most {limit} in 1 000"
        for name, limit in limits.items()
        if 1000 * found[name] > limit * lines[name]
    ]


def face_violations(text: str) -> list[str]:
    """What zenith/__init__.py holds besides public names: a docstring, imports, `__all__` and module attributes."""
    found = []
    for node in parsed(text).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        imported = isinstance(node, ast.Import | ast.ImportFrom)
        typing_only = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        lazy = isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__")
        if not (docstring or imported or typing_only or lazy or _is_module_attribute(node)):
            found.append(f"zenith/__init__.py:{node.lineno} is more than a public name")
    return found


def _is_module_attribute(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return all(isinstance(t, ast.Name) and t.id.startswith("__") for t in targets)


ZENITH = sources("zenith")
OURS = ZENITH | sources("benchmarks", "examples", "docs")


@pytest.mark.parametrize("check", [layer_violations, inner_violations, library_violations, import_cycles])
def test_structure_of_the_package(check):
    assert check(ZENITH) == []


def test_types_are_stated():
    assert any_violations(ZENITH) == []


@pytest.mark.parametrize("check", [docstring_violations, swallowed_exceptions])
def test_form_of_every_file(check):
    assert check(OURS) == []


@pytest.mark.parametrize("files", [OURS, sources("tests")], ids=["ours", "tests"])
def test_sizes_of_files_and_functions(files):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        for long in size_violations(files, LONG_FILE_LINES, LONG_FUNCTION_LINES):
            warnings.warn(long, stacklevel=1)
    assert size_violations(files) == []


def test_public_face_is_names_only():
    assert face_violations(ZENITH.get("zenith.__init__", "")) == []


def test_locks_are_declared_and_none_is_taken_while_importing():
    found = module_locks(ZENITH)
    assert sorted(found) == sorted(LOCKS)
    assert [line for lines in found.values() for line in lines] == []


def test_import_loads_no_heavy_library():
    code = f"import sys, zenith; print(*[m for m in {NOT_AT_IMPORT!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize(
    ("check", "module", "text"),
    [
        (layer_violations, "zenith.ir.graph", "def f():\n    from zenith.api import jit"),
        (layer_violations, "zenith.ir.__init__", "from ..passes import fold"),
        (layer_violations, "zenith.ir.graph", "from .. import trace"),
        (layer_violations, "zenith.passes.fuse", "import zenith.backends.plan"),
        (layer_violations, "zenith.backends.plan", "from zenith.passes import fuse"),
        (layer_violations, "zenith.trace", "import importlib\nimportlib.import_module('zenith.compile')"),
        (layer_violations, "zenith.trace", "import zenith"),
        (layer_violations, "zenith.helpers", ""),
        (inner_violations, "zenith.torch.draws", "def f():\n    from zenith.torch.dynamo import ends"),
        (library_violations, "zenith.ir.graphs", "import networkx"),
        (library_violations, "zenith.backends.plan", "def f():\n    import numba"),
        (library_violations, "zenith.arrays", "import torch"),
        (library_violations, "zenith.ir.types", "from torch import Tensor"),
        (size_violations, "zenith.trace", "x = 1\n" * (MAX_FILE_LINES + 1)),
        (size_violations, "zenith.trace", "def f():\n" + "    x = 1\n" * MAX_FUNCTION_LINES),
        (docstring_violations, "zenith.trace", "x = 1"),
        (docstring_violations, "zenith.trace", "'''Text.'''\ndef f(): ..."),
        (swallowed_exceptions, "zenith.trace", "try:\n    x = 1\nexcept:\n    raise"),
        (swallowed_exceptions, "zenith.trace", "try:\n    x = 1\nexcept Exception:\n    pass"),
        (any_violations, "zenith.ir.graph", "x = 1\n" * 19 + "y: Any = 1"),
    ],
)
def test_each_check_can_fail(check, module, text):
    assert len(check({module: text})) == 1


@pytest.mark.parametrize(
    ("check", "module", "text"),
    [
        (
            layer_violations,
            "zenith.ir.graph",
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import zenith.api",
        ),
        (layer_violations, "zenith.compile", "from zenith.passes import pipeline\nfrom zenith import errors, trace"),
        (layer_violations, "zenith.cli", "import zenith"),
        (inner_violations, "zenith.torch.dynamo.ends", "from zenith.torch.dynamo import blocks"),
        (library_violations, "zenith.arrays", "def f():\n    import torch"),
        (library_violations, "zenith.torch.__init__", "import torch"),
        (library_violations, "zenith.backends.cpu.link", "from numba import njit"),
        (swallowed_exceptions, "zenith.trace", "try:\n    x = 1\nexcept KeyError:\n    pass"),
        (any_violations, "zenith.ir.graph", "x = 1\n" * 39 + "y: Any = 1"),
    ],
)
def test_each_check_can_pass(check, module, text):
    assert check({module: text}) == []


def test_open_types_are_counted_by_room():
    text = "x: Any = 1\n"
    assert any_violations({"zenith.backends.cpu.link": text}, {"backends.cpu": 1000}) == []
    assert len(any_violations({"zenith.backends.cpu.link": text}, {"backends.cpu": 999, "backends": 1000})) == 1


def test_cycles_are_found_through_packages():
    ring = {"zenith.ir.a": "from zenith.ir import b", "zenith.ir.b": "from zenith.ir.c import x", "zenith.ir.c": ""}
    assert import_cycles(ring) == []
    assert len(import_cycles(ring | {"zenith.ir.c": "import zenith.ir.a"})) == 1
    assert import_cycles(ring | {"zenith.ir.c": "def f():\n    import zenith.ir.a"}) == []


def test_locks_are_found_and_taking_one_at_import_is_seen():
    text = "import threading\nL: object = threading.Lock()\ndef f():\n    with L: ...\n"
    assert module_locks({"zenith.trace": text}) == {"zenith.trace.L": []}
    assert module_locks({"zenith.trace": text + "with L:\n    x = 1"}) == {"zenith.trace.L": ["zenith.trace:5"]}


def test_a_public_face_with_code_is_refused():
    assert face_violations("'''Text.'''\nfrom zenith.api import jit\n__all__ = ['jit']\n__version__ = '0'") == []
    assert len(face_violations("cache = {}")) == 1
    assert len(face_violations("def helper(): ...")) == 1
