"""HTML: a picture whose boxes open what is folded in them, below it; as a part of a page, and as a page of its own.

Nothing is loaded: the pictures are in it, and folds are ``details`` elements, which open without a script, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from zenith.ir.graph import Graph
from zenith.ir.pictures.drawing import Panel, panel_of
from zenith.ir.pictures.svg import svg

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: sans-serif; margin: 1em">
<h1 style="font-size: 1.2em">{title}</h1>
{part}
</body>
</html>
"""
_INDENT = "margin-left: 1em; border-left: 2px solid #d1d5db; padding-left: 0.5em"


def to_html(graph: Graph) -> str:
    """A graph as a part of a page, as notebooks show it."""
    return "\n".join(_part(panel_of(graph)))


def to_page(graph: Graph, title: str) -> str:
    """The same as a page of its own."""
    return _PAGE.format(title=escape(title), part=to_html(graph))


def _part(panel: Panel) -> Iterator[str]:
    yield '<div class="zenith-picture">'
    yield f'<div style="overflow-x: auto">{svg(panel, opens=True)}</div>'
    for number, inner in enumerate(panel.panels):
        yield f'<details data-panel="{number}"><summary>{escape(inner.title)}</summary><div style="{_INDENT}">'
        yield from _part(inner)
        yield "</div></details>"
    yield "</div>"
