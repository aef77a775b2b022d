"""Statements that are written as text: the names in them are a kernel's own, which are bound in front of them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from zenith.backends.expressions import Position
from zenith.backends.kernel import Let, UserCode
from zenith.backends.lower.elements import ElementBuilder
from zenith.ir.dims import DimLike, dim


def renamed(text: str, names: Mapping[str, str]) -> str:
    """Written statements with some of their names replaced."""
    return re.sub(r"\b[a-z]+\b", lambda word: names.get(word.group(), word.group()), text)


def written(text: str, names: Mapping[str, str]) -> UserCode:
    """Written statements with a kernel's names, and the buffers that they access."""
    text = renamed(text, names)
    return UserCode(text, tuple(dict.fromkeys(re.findall(r"\b(\w+)\[", text))))


def let(e: ElementBuilder, names: Mapping[str, str], **values: DimLike) -> None:
    """Bind names of written statements to indices, in the innermost loop."""
    for word, at in values.items():
        e.append(Let(names[word], Position(dim(at))))
        e.level_of[names[word]] = len(e.levels) - 1


def indented(text: str, levels: int = 1) -> str:
    """Written statements, inside of others."""
    return "\n".join("    " * levels + line for line in text.splitlines())
