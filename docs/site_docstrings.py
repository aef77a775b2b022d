"""Reads the project's docstrings for the reference: a griffe extension, which mkdocs.yml names.

Sections are those of NumPy's style. Within them an item is ``name: what it is``, several may share a line, and types
come from the signature. Doctests stand at the end, without a title.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import griffe
from site_public import definition, public_modules, public_names, public_paths

TITLE = re.compile(r"^(Parameters|Attributes|Returns|Raises)\n-{4,}\n", re.MULTILINE)
DOCTEST = re.compile(r"^>>> .*(?:\n(?!\n).*)*(?:\n\n+>>> .*(?:\n(?!\n).*)*)*", re.MULTILINE)
ROLE = re.compile(r":\w+:`(~?)([\w.]+)`")
LITERAL = re.compile(r"::\n\n((?: {4}.*(?:\n|$)|\n)+)")
CHAPTER = re.compile(r"\bdocs/(\w+)\.md\b")
RAISED = re.compile(r"(?:^|(?<=[.;] )|(?<=\.\n))([A-Z]\w+(?:(?:, | or )[A-Z]\w+)*): ")


class Docstrings(griffe.Extension):
    """Gives what is public the sections of its docstring, and functions that were made by calls their signature."""

    def on_package(self, *, pkg: griffe.Module, loader: griffe.GriffeLoader, **_: object) -> None:
        """After the whole package has been read."""
        loader.resolve_aliases(implicit=False, external=False)
        modules = pkg.modules_collection
        for module in public_modules().values():
            _read(modules[module.__name__])
            for name in public_names(module):
                if home := definition(getattr(module, name)) or definition(type(getattr(module, name))):
                    item = _defined(modules, *home.rsplit(".", 1))
                    _read(item)
                    _show(modules[module.__name__], name, item)


def _show(module: griffe.Module, name: str, item: griffe.Object) -> None:
    """Let a name in a module be this object, also where a file of the module has that name, or none is known."""
    if module.members.get(name) is not item:
        module.set_member(name, griffe.Alias(name, item, parent=module))


def _defined(modules: griffe.ModulesCollection, home: str, name: str) -> griffe.Object:
    """A function or class; one that a call makes, whose text says nothing, is looked at in the running module."""
    found = modules[home].members.get(name)
    if found is None or found.is_attribute:
        modules[home].set_member(name, _inspected(home)[name])
    return modules[home].members[name]


@cache
def _inspected(module: str) -> griffe.Module:
    return griffe.inspect(module, filepath=Path(sys.modules[module].__file__))


def _read(item: griffe.Object) -> None:
    """The sections of an object's docstring, and of its members'."""
    if item.docstring:
        item.docstring.parsed = list(sections(item.docstring.value, item))
    for name, member in item.members.items() if item.is_class else ():
        if not (name.startswith("_") or member.is_alias):
            _read(member)


def sections(text: str, item: griffe.Object) -> Iterator[griffe.DocstringSection]:
    """The sections of a docstring in their order."""
    examples = [match[0] for match in DOCTEST.finditer(text)]
    before, *titled = TITLE.split(DOCTEST.sub("", text))
    if before.strip():
        yield griffe.DocstringSectionText(linked(before.strip()))
    for title, body in zip(titled[::2], titled[1::2], strict=True):
        yield _section(title, linked(body.strip()), item)
    if examples:
        yield griffe.DocstringSectionExamples([(griffe.DocstringSectionKind.examples, e) for e in examples])


def _section(title: str, body: str, item: griffe.Object) -> griffe.DocstringSection:
    if title == "Returns":
        value = griffe.DocstringReturn(name="", annotation=getattr(item, "returns", None), description=body)
        return griffe.DocstringSectionReturns([value])
    if title == "Raises":
        errors = [griffe.DocstringRaise(annotation=names, description=text) for names, text in items(body, RAISED)]
        return griffe.DocstringSectionRaises(errors) if errors else griffe.DocstringSectionText(f"**Raises** {body}")
    if title == "Attributes":
        found = {name: member for name, member in item.members.items() if member.is_attribute}
        return griffe.DocstringSectionAttributes([
            griffe.DocstringAttribute(name=names, annotation=_type(found, names), description=text)
            for names, text in items(body, _starts(found))
        ])  # fmt: skip
    given = {parameter.name: parameter for parameter in getattr(item, "parameters", ())}
    return griffe.DocstringSectionParameters([
        griffe.DocstringParameter(
            name=names, annotation=_type(given, names), description=text,
            value=given[names].default if names in given else None,
        )
        for names, text in items(body, _starts(given))
    ])  # fmt: skip


def _starts(known: Iterable[str]) -> re.Pattern[str]:
    """What starts an item: names at the start of a line that is not indented, or a known one after a sentence."""
    name = "|".join(map(re.escape, known)) or r"(?!)"
    return re.compile(rf"(?:^|(?<=[.;] ))((?:{name})(?:, (?:{name}))*): |^([\w*]+(?:, [\w*]+)*): ", re.MULTILINE)


def items(body: str, start: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """The names and the text of each item of a section."""
    found = list(start.finditer(body))
    if not found or found[0].start() > 0:
        raise ValueError(f"a section starts with no item, 'name: what it is': {body}")
    for match, end in zip(found, [*(m.start() for m in found[1:]), len(body)], strict=True):
        first, _, rest = body[match.end() : end].strip().partition("\n")
        yield next(filter(None, match.groups())), f"{first}\n{textwrap.dedent(rest)}"


def _type(found: dict[str, griffe.Parameter | griffe.Object], names: str) -> str | griffe.Expr | None:
    """The annotation of an item, where its names have the same one."""
    types = [getattr(found.get(name.lstrip("*")), "annotation", None) for name in names.split(", ")]
    return types[0] if all(str(t) == str(types[0]) for t in types) else None


def linked(text: str) -> str:
    """Roles such as ``:func:`zenith.jit``` and names of chapters as links, where the site has what they name.

    A block after a double colon is Python.
    """
    text = LITERAL.sub(lambda block: f":\n\n```python\n{textwrap.dedent(block[1]).strip()}\n```\n\n", text)
    return CHAPTER.sub(r"[\1](../\1.md)", ROLE.sub(_link, text))


def _link(match: re.Match[str]) -> str:
    short, path = match[1], match[2]
    shown = path.rpartition(".")[2] if short else path
    public = public_paths()
    target = (
        path if path in public else next((p for p in public if p.rpartition(".")[2] == path.rpartition(".")[2]), "")
    )
    return f"[`{shown}`][{target}]" if target else f"`{shown}`"
