"""From modules to one file: the definitions that some definitions need, of all modules, and nothing else.

A definition brings along what its global names refer to, and a name the registrations that teach Numba its meaning.
Names of several modules may collide in the file: one of them is then prefixed with its module's name, everywhere. Text
is otherwise copied unchanged, comments included.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from zenith.cached import cached_property
from zenith.eject.modules import Definition, Module, Modules, Statement
from zenith.errors import CompileError

WIDTH = 120
_MAKING = (ast.Call, ast.Dict, ast.List, ast.Set, ast.DictComp, ast.ListComp, ast.SetComp)


class Bundle:
    """The statements that some definitions need.

    ``front`` are modules that come first in the file: what they define needs the others when it is called only.
    ``registering`` are the modules in which registrations are looked for. The definitions of ``preserved`` modules keep
    their names, those of others take none of ``taken``.
    """

    def __init__(
        self, modules: Modules, wanted: Iterable[Definition], front: Sequence[str], registering: Iterable[str],
        preserved: Sequence[str], taken: Collection[str],
    ) -> None:  # fmt: skip
        self._modules, self._front, self._preserved, self._taken = modules, front, preserved, set(taken)
        self._statements: dict[Statement, None] = {}
        self._definitions: set[Definition] = set()
        self._take(wanted)
        registrations = [s for name in registering for s in modules[name].statements if s.subject]
        while missing := [s for s in registrations if s not in self._statements and s.subject & self._definitions]:
            self._take([meaning for s in missing for meaning in self._include(s)])

    def text(self) -> str:
        """All statements in order: those of ``front``, then each after what it needs."""
        lines = [*self._imports()]
        for module in self._order:
            lines += ["", "", *_title(self._modules[module]), *self._printed(module)]
        return "\n".join(lines) + "\n"

    def _take(self, wanted: Iterable[Definition]) -> None:
        """Take definitions and all that they need."""
        pending = list(wanted)
        while pending:
            found = pending.pop()
            if found not in self._definitions:
                self._definitions.add(found)
                pending += self._include(self._statement_of(found)) if found.is_ours else []

    def _include(self, statement: Statement) -> list[Definition]:
        """Take a statement; what it needs, if that is new."""
        if statement in self._statements:
            return []
        self._statements[statement] = None
        self._definitions |= {Definition(statement.module, name) for name in statement.binds}
        return [use.meaning for use in statement.uses]

    def _statement_of(self, definition: Definition) -> Statement:
        module = self._modules[definition.module]
        found = next((s for s in module.statements if definition.name in s.binds), None)
        if found is None:
            raise CompileError(f"{definition.module} has no definition of {definition.name or 'itself'} to bring along",
                               fix="this is a defect of Zenith: report it with the program")  # fmt: skip
        return found

    @cached_property
    def _order(self) -> list[str]:
        """The modules: the front, then each after those that it needs."""
        order: list[str] = []
        seen = set(self._front)

        def visit(module: str) -> None:
            for statement in self._of(module):
                for use in statement.uses:
                    if use.meaning.is_ours and use.meaning.module not in seen:
                        seen.add(use.meaning.module)
                        visit(use.meaning.module)
            if module not in self._front:
                order.append(module)

        for module in self._front:
            visit(module)
        for module in sorted({s.module for s in self._statements} - seen):
            if module not in seen:
                seen.add(module)
                visit(module)
        return [*self._front, *order]

    def _of(self, module: str) -> list[Statement]:
        own = [s for s in self._statements if s.module == module]
        return sorted(own, key=lambda s: s.lines)

    @cached_property
    def _equal(self) -> dict[Statement, Statement]:
        """Assignments that equal another module's, in text and meaning: they are written once.

        Not where each creates an object of its own, such as a lock, or where a name is of its own module.
        """
        known: dict[object, Statement] = {}
        found = {}
        for module in self._order:
            for s in self._of(module):
                used = frozenset(u.meaning for u in s.uses if u.meaning.name not in s.binds)
                if _is_value(s.node) and all(meaning.module != module for meaning in used):
                    found[s] = known.setdefault((ast.dump(s.node), used), s)
        return {s: first for s, first in found.items() if s is not first}

    @cached_property
    def _names(self) -> dict[Definition, str]:
        """The name of every definition in the file."""
        names: dict[Definition, str] = {}
        used = set(self._taken)
        for module in sorted(self._order, key=lambda m: m not in self._preserved):
            for statement in self._of(module):
                for name in statement.binds if statement not in self._equal else ():
                    own = _apart(name) if module in self._preserved else _unused(name, module, used)
                    names[Definition(module, name)] = own
                    used.add(own)
        for statement, first in self._equal.items():
            for name in statement.binds:
                names[Definition(statement.module, name)] = names[Definition(first.module, name)]
        for definition in sorted(d for d in self._definitions if not d.is_ours):
            local = self._local_name(definition)
            names[definition] = _unused(local, definition.module, used)
            used.add(names[definition])
        return names

    def _local_name(self, definition: Definition) -> str:
        """The name by which modules use an imported definition."""
        for statement in self._statements:
            for use in statement.uses:
                if use.meaning == definition and isinstance(use.node, ast.Name):
                    return use.node.id
        return definition.name or definition.module

    def _imports(self) -> Iterator[str]:
        outside = [d for d in self._definitions if not d.is_ours]
        for d in sorted(d for d in outside if not d.name):
            yield f"import {d.module}" + (f" as {self._names[d]}" if self._names[d] != d.module else "")
        for module in sorted({d.module for d in outside if d.name}):
            names = [
                d.name + (f" as {self._names[d]}" if self._names[d] != d.name else "")
                for d in sorted(outside)
                if d.module == module and d.name
            ]
            line = f"from {module} import {', '.join(names)}"
            yield line if len(line) <= WIDTH else f"from {module} import (\n    " + ",\n    ".join(names) + ",\n)"

    def _printed(self, module: str) -> Iterator[str]:
        before: Statement | None = None
        for statement in self._of(module):
            if statement in self._equal:
                continue
            if before is not None:
                small = isinstance(before.node, ast.Assign) and isinstance(statement.node, ast.Assign)
                yield from () if small else ("", "")
            yield self._renamed(statement)
            before = statement

    def _renamed(self, statement: Statement) -> str:
        """The statement's lines with the names that it has in the file."""
        first, last = statement.lines
        lines = [line.encode() for line in self._modules[statement.module].lines[first - 1 : last]]
        for node, old, new in sorted(
            self._changes(statement), key=lambda c: (c[0].lineno, c[0].col_offset), reverse=True
        ):
            number, start = node.lineno - first, node.col_offset
            line = lines[number]
            if not line.startswith(old.encode(), start):
                raise CompileError(f"{old} in line {node.lineno} of {statement.module} does not occur in it",
                                   fix="this is a defect of Zenith: report it with the program")  # fmt: skip
            lines[number] = line[:start] + new.encode() + line[start + len(old.encode()) :]
        text = "\n".join(line.decode() for line in lines)
        for name in statement.binds:
            new = self._names[Definition(statement.module, name)]
            if isinstance(statement.node, ast.FunctionDef | ast.ClassDef) and new != name:
                text = re.sub(rf"^(def|class) {name}\b", rf"\1 {new}", text, count=1, flags=re.MULTILINE)
        return text

    def _changes(self, statement: Statement) -> Iterator[tuple[ast.expr, str, str]]:
        for use in statement.uses:
            old, new = ast.unparse(use.node), self._names[use.meaning]
            if old != new:
                yield use.node, old, new


def _is_value(node: ast.stmt) -> bool:
    """Whether a statement names a value that nothing changes."""
    return isinstance(node, ast.Assign) and not any(isinstance(child, _MAKING) for child in ast.walk(node.value))


def _apart(name: str) -> str:
    """The name, with an underscore where it would hide a builtin, which other modules use."""
    return f"{name}_" if hasattr(builtins, name) else name


def _unused(name: str, module: str, used: Collection[str]) -> str:
    """A name for a definition of a module: its own, or with the module's in front."""
    found, path = _apart(name), module.split(".")
    while found in used:
        found = f"{path.pop() if path else 'own'}_{found.lstrip('_')}"
    return found


def _title(module: Module) -> list[str]:
    """Comment lines that say which module the following definitions are from."""
    head = module.doc.partition("\n")[0]
    where = [] if ".made_" in module.name else [f"# From {module.name.replace('.', '/')}.py:"]
    return [f"# {'-' * (WIDTH - 2)}", *where, f"# {head}", f"# {'-' * (WIDTH - 2)}", ""]
