"""Dead code elimination: names that nothing uses are not bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace

from zenith.backends.expressions import Name
from zenith.backends.kernel import Bind, Branch, Fold, Let, Loop, Statement, TaskLoop, While
from zenith.ir.dims import Dim


def without_dead_code(statements: Sequence[Statement], used: set[str] | None = None) -> tuple[Statement, ...]:
    """The statements without bindings of names that nothing uses: ``used`` has those of what follows.

    It gets the names that the statements use themselves.
    """
    used, found = set() if used is None else used, list[Statement]()
    for s in reversed(statements):
        if isinstance(s, Let | Bind) and s.name not in used:
            continue
        match s:
            case Branch(cases=cases):
                s = replace(s, cases=tuple(without_dead_code(case, used) for case in cases))
                used |= s.at.symbols()
            case While(before, condition, body):
                used.update(names_in(condition))
                body = without_dead_code(body, used)
                s = replace(s, before=without_dead_code(before, used), body=body)
            case Loop() | TaskLoop() | Fold():
                used.update(names_in([getattr(s, f.name) for f in fields(s) if f.name != "body"]))
                s = replace(s, body=without_dead_code(s.body, used))
                if isinstance(s, Loop) and not s.body:
                    continue
            case _:
                used.update(names_in(s))
        found.append(s)
    return tuple(reversed(found))


def names_in(part: object) -> Iterator[str]:
    """The names in a statement, an expression or a size, or in several."""
    if isinstance(part, Name):
        yield part.name
    elif isinstance(part, Dim):
        yield from part.symbols()
    elif isinstance(part, tuple | list):
        for item in part:
            yield from names_in(item)
    elif is_dataclass(part):
        for field in fields(part):
            yield from names_in(getattr(part, field.name))
