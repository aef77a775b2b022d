"""Modules as text: their top-level statements, what each binds, and what the global names in it refer to.

Nothing is imported or run. A module is read from its file, or given as text: the generated modules of an ejected
program have no file.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from zenith.cached import cached_property
from zenith.errors import CompileError

OURS = "zenith"
REGISTERING = frozenset({"lower_builtin", "type_callable", "infer_global", "register_default"})  # Numba's decorators

_Function = ast.FunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, order=True)
class Definition:
    """What a global name refers to: a name of a module, or (with the name "") the module itself."""

    module: str
    name: str

    @property
    def is_ours(self) -> bool:
        """Whether it is defined in Zenith, so that it is copied, not imported."""
        return self.module.partition(".")[0] == OURS


@dataclass(frozen=True)
class Use:
    """An occurrence of a global name in a statement, or of an attribute of a module (``s.where``)."""

    node: ast.expr
    meaning: Definition


@dataclass(frozen=True, eq=False)
class Statement:
    """A top-level statement: what it binds, and its lines (comments above included)."""

    module: str
    node: ast.stmt
    binds: tuple[str, ...]
    lines: tuple[int, int]  # the first and the last one, counted from 1
    _find_uses: Callable[[ast.stmt], Iterator[Use]]

    @cached_property
    def uses(self) -> tuple[Use, ...]:
        """The occurrences of global names in it."""
        return tuple(self._find_uses(self.node))

    @property
    def subject(self) -> frozenset[Definition]:
        """What a registration is about; empty for a statement that registers nothing.

        That is a registry of ours, or the first of ours among the arguments of the call that registers, or what the
        body is about.
        """
        calls = _registering(self.node)
        if not calls:
            return frozenset()
        candidates = [node for call in calls for node in (*_registry(call), *call.args)]
        found = [self._ours(node) for node in candidates]
        return next((meanings for meanings in (*found, self._ours(self.node)) if meanings), frozenset())

    def _ours(self, node: ast.AST) -> frozenset[Definition]:
        inside = set(map(id, ast.walk(node)))
        own = {Definition(self.module, name) for name in self.binds}
        return frozenset(use.meaning for use in self.uses if use.meaning.is_ours and id(use.node) in inside) - own


def _registering(node: ast.stmt) -> list[ast.Call]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return [node.value]
    calls = [d for d in getattr(node, "decorator_list", ()) if isinstance(d, ast.Call)]
    return [c for c in calls if isinstance(c.func, ast.Name) and c.func.id in REGISTERING]


def _registry(call: ast.Call) -> list[ast.expr]:
    """The object of which a call is a method."""
    return [call.func.value] if isinstance(call.func, ast.Attribute) else []


class Module:
    """One module: its text and its statements."""

    def __init__(self, name: str, text: str, modules: Modules) -> None:
        self.name, self.lines, self._modules = name, text.splitlines(), modules
        tree = ast.parse(text)
        self.doc = ast.get_docstring(tree) or ""
        self.imports: dict[str, Definition] = {}
        own = [node for node in tree.body if not isinstance(node, ast.Import | ast.ImportFrom)]
        for node in tree.body:
            self.imports.update(_imported(node))
        bound = [(node, tuple(_bound(node))) for node in own]
        self.definitions = {name for _, names in bound for name in names}
        self.statements = [self._statement(node, names) for node, names in bound]

    def meaning(self, name: str) -> Definition | None:
        """The definition to which a global name of this module refers; None for a builtin."""
        if name in self.definitions:
            return Definition(self.name, name)
        found = self.imports.get(name)
        return None if found is None else self._modules.resolve(found)

    def _statement(self, node: ast.stmt, binds: tuple[str, ...]) -> Statement:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        while first > 1 and self.lines[first - 2].startswith("#"):
            first -= 1
        return Statement(self.name, node, binds, (first, node.end_lineno or node.lineno), self._uses)

    def _uses(self, statement: ast.stmt) -> Iterator[Use]:
        if any(isinstance(node, ast.Global) for node in ast.walk(statement)):
            raise CompileError(f"{self.name} changes a global name, which cannot be done in a file of several modules",
                               fix="this is a defect of Zenith: report it with the program")  # fmt: skip
        for node in _global_names(statement):
            name = node.value if isinstance(node, ast.Attribute) else node
            assert isinstance(name, ast.Name)
            meaning = self.meaning(name.id)
            if meaning is None:
                continue
            if isinstance(node, ast.Attribute) and meaning.is_ours and not meaning.name:
                yield Use(node, self._modules.resolve(Definition(meaning.module, node.attr)))
            else:
                yield Use(name, meaning)


class Modules:
    """All modules by name, each read when it is first used; the texts of those in ``given`` are not in files."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._texts = dict(given)
        self._modules: dict[str, Module] = {}

    def __getitem__(self, name: str) -> Module:
        if name not in self._modules:
            text = self._texts.get(name) or _path(name).read_text(encoding="utf-8")
            self._modules[name] = Module(name, text, self)
        return self._modules[name]

    def resolve(self, found: Definition) -> Definition:
        """The definition of a name of a module of ours: there, in its package, or where it is imported from."""
        if not found.is_ours or not found.name:
            return found
        inner = f"{found.module}.{found.name}"
        spec = None if found.module in self._texts else importlib.util.find_spec(found.module)
        is_package = spec is not None and bool(spec.submodule_search_locations)
        if is_package and (inner in self._texts or importlib.util.find_spec(inner) is not None):
            return Definition(inner, "")
        return self[found.module].meaning(found.name) or found

    def reachable(self, start: str, below: str) -> list[str]:
        """The modules below a package that import others, from ``start`` on; each after those that it imports."""
        order: list[str] = []

        def visit(name: str) -> None:
            for found in self[name].imports.values():
                if not f"{found.module}.".startswith(below):
                    continue
                inside = self.resolve(found).module
                if inside.startswith(below) and inside not in seen:
                    seen.add(inside)
                    visit(inside)
            order.append(name)

        seen = {start}
        visit(start)
        return order


def _path(module: str) -> Path:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise CompileError(f"the source of {module} cannot be read", fix="eject where Zenith's source files are")
    return Path(spec.origin)


def _imported(node: ast.stmt) -> dict[str, Definition]:
    match node:
        case ast.Import(names=names):
            named = {alias.asname or alias.name: alias.name for alias in names}
            return {local: Definition(name, "") for local, name in named.items()}
        case ast.ImportFrom(module=str(module), names=names) if module != "__future__":
            return {alias.asname or alias.name: Definition(module, alias.name) for alias in names}
    return {}


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a top-level statement binds."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _global_names(node: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[ast.Name | ast.Attribute]:
    """Every name in a statement that no enclosing function binds; for ``a.b`` the whole attribute."""
    match node:
        case ast.FunctionDef() | ast.Lambda():
            args = node.args
            outside = [*args.defaults, *args.kw_defaults, *getattr(node, "decorator_list", ())]
            outside += [a.annotation for a in _arguments(args)] + [getattr(node, "returns", None)]
            yield from (n for child in outside if child is not None for n in _global_names(child, hidden))
            body = node.body if isinstance(node.body, list) else [node.body]
            inner = hidden | {a.arg for a in _arguments(args)} | {n for s in body for n in _stored(s)}
            yield from (n for s in body for n in _global_names(s, inner))
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            inner = hidden | {n for g in node.generators for n in _stored(g.target)}
            yield from (n for child in ast.iter_child_nodes(node) for n in _global_names(child, inner))
        case ast.Attribute(value=ast.Name(id=name)):
            if name not in hidden:
                yield node
        case ast.Name(id=name):
            if name not in hidden:
                yield node
        case _:
            yield from (n for child in ast.iter_child_nodes(node) for n in _global_names(child, hidden))


def _arguments(args: ast.arguments) -> list[ast.arg]:
    rest = [a for a in (args.vararg, args.kwarg) if a is not None]
    return [*args.posonlyargs, *args.args, *args.kwonlyargs, *rest]


def _stored(node: ast.AST) -> Iterator[str]:
    """The names that a statement binds in the enclosing function."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            return
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case _:
            yield from (n for child in ast.iter_child_nodes(node) for n in _stored(child))
