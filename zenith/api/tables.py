"""Tables: how reports are shown, as text by ``str``, as tables through rich and in notebooks."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDTH = 120


class Shown:
    """An object with ``__rich__``, by which ``str`` and notebooks show it."""

    def __rich__(self) -> RenderableType:
        raise NotImplementedError

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        Console(file=text, width=WIDTH, color_system=None).print(self)
        return text.getvalue()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), record=True, width=WIDTH)
        console.print(self)
        return console.export_html(inline_styles=True)


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
