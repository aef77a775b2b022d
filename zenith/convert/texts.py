"""Texts of values: of a size that of this call, of which the program is then one; of traced values none.

Messages of exceptions show the values of a call, and what is printed may show what stands for them.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable

from zenith import tree
from zenith.convert.lists import sized_list
from zenith.convert.typing import Function
from zenith.errors import TraceError, user_line
from zenith.trace.recorder import current_recorder, in_message
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer


def formatted(value: object) -> object:
    """A value whose text is wanted."""
    recorder = current_recorder()
    if recorder is None or recorder.raises.ends or in_message():
        return value
    leaves, treedef = tree.flatten(value)
    if sized_list(value) is None and not any(isinstance(leaf, Tracer) for leaf in leaves):
        known = [int(leaf) if isinstance(leaf, TracedSize) else leaf for leaf in leaves]
        return tree.unflatten(treedef, known) if any(isinstance(leaf, TracedSize) for leaf in leaves) else value
    raise TraceError(
        "the text of a traced value needs the values, which exist only when the program runs", where=user_line(),
        fix="make the text after the call, of what it returns; make an argument that it shows static; or write it into "
        "the call of print, or use zenith.debug.print",
    )  # fmt: skip


def _texts(function: Callable[..., str]) -> Callable[..., str]:
    def text(*args: object, **kwargs: object) -> str:
        return function(*map(formatted, args), **{name: formatted(value) for name, value in kwargs.items()})

    return text


def method_of_text(method: Callable[..., str]) -> Callable[..., str]:
    """``"...".format`` and what else makes texts of its operands."""
    return _texts(method) if method.__name__ in ("format", "format_map", "join") else method


TEXTS: dict[object, Function] = {name: _texts(name) for name in (str, repr, format, builtins.ascii)}
