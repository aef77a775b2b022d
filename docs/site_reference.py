"""The pages of the reference: one for each public module, with an entry for each of its names, made from the code.

Functions and classes are mkdocstrings' entries; other names of the same object, and what is NumPy's, are a line.
"""

from __future__ import annotations

import inspect
import re
from types import ModuleType

from site_docstrings import linked
from site_public import definition, homes, public_modules, public_names

FOLDER = "reference"
BAR = re.compile(r"(`+[^`]+`+)|\|")
HIDDEN = ("show_root_heading: false", "show_root_toc_entry: false")


def pages() -> dict[str, str]:
    """The text of every page by its path in the site."""
    return {f"{FOLDER}/{path}.md": page_of(path, module) for path, module in public_modules().items()}


def page_of(path: str, module: ModuleType) -> str:
    """A module's docstring, a table of its names, and their entries."""
    names = public_names(module)
    sections = [f"# {path}", _directive(module.__name__, *HIDDEN, "members: false")]
    sections += ["\n".join(["| name | what it is |", "|---|---|", *(_row(path, module, name) for name in names)])]
    sections += [_entry(f"{path}.{name}", getattr(module, name)) for name in names]
    return "\n\n".join(filter(None, sections)) + "\n"


def _row(path: str, module: ModuleType, name: str) -> str:
    value = getattr(module, name)
    if isinstance(value, ModuleType):
        page = next(page for page, module in public_modules().items() if module is value)
        return f"| [`{name}`]({page}.md) | module: {_summary(value)} |"
    return f"| [`{name}`](#{path}.{name}) | {_summary(value) if _is_own(value) else _foreign(value)} |"


def _summary(value: object) -> str:
    """The first paragraph of a docstring in a table, where a bar outside of code would be another cell."""
    paragraph = " ".join((inspect.getdoc(value) or "").partition("\n\n")[0].split())
    return BAR.sub(lambda match: match[1] or "&#124;", linked(paragraph))


def _is_own(value: object) -> bool:
    return bool(definition(value) or definition(type(value)))


def _entry(path: str, value: object) -> str:
    """What the reference says of a name."""
    name, home = path.rpartition(".")[2], homes().get(path, path)
    if isinstance(value, ModuleType):
        return ""
    if home != path:
        return f"## {name} {{ #{path} }}\n\nAnother name of [`{home}`][{home}]."
    if definition(value):
        return _directive(path)
    if definition(type(value)):
        return f"## {name} {{ #{path} }}\n\n" + _directive(path, *HIDDEN, "members: false")
    return f"## {name} {{ #{path} }}\n\n{_foreign(value)}"


def _foreign(value: object) -> str:
    """A name that is NumPy's or ml_dtypes', or the value of a constant."""
    return f"`{value.__module__}.{value.__qualname__}`" if isinstance(value, type) else f"`{value}`"


def _directive(identifier: str, *options: str) -> str:
    return "\n".join([f"::: {identifier}", *["    options:"] * bool(options), *(f"      {o}" for o in options)])
