"""Tables: how reports are shown, as text by ``str``, as tables through rich and in notebooks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from zenith.progress import import_rich

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

WIDTH = 120
# A part of a page, not a page, which would bring the notebook's own colours.
PART = '<pre style="line-height: normal; overflow-x: auto; white-space: pre">{code}</pre>'


class Shown:
    """An object with ``__rich__``, by which ``str`` and notebooks show it."""

    def __rich__(self) -> RenderableType:
        raise NotImplementedError

    def __str__(self) -> str:
        return _printed(self).export_text()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return _printed(self).export_html(code_format=PART, inline_styles=True)


def _printed(shown: Shown) -> Console:
    """A console that has printed it, and shows nothing itself, as rich's would in a notebook."""
    import_rich()
    from rich.console import Console

    console = Console(file=io.StringIO(), force_jupyter=False, record=True, width=WIDTH)
    console.print(shown)
    return console


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> RenderableType:
    """A rich table whose cells are texts, folded where they are too wide."""
    from rich.table import Table
    from rich.text import Text

    made = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*(Text(str(cell)) for cell in row))
    return made
