"""The user's lines of an exported graph, at which rules run: messages and graph nodes name them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import torch

from zenith.errors import SourceLine, user_line
from zenith.torch import recurrent

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_LIBRARY = (os.path.dirname(torch.__file__) + os.sep, "torch" + os.sep, "<eval_with_key>", recurrent.__file__)


def line_of(node: torch.fx.Node) -> SourceLine | None:
    """The user's line that a node comes from."""
    found: SourceLine | None = at_line(node, user_line)
    return found


def at_line(node: torch.fx.Node, action: Callable[[], object]) -> Any:
    """Run ``action`` below a frame at the innermost line of a node's stack that is not torch's own.

    Zenith finds the user's line by walking the stack, and a module is not running when its export is translated.
    """
    frames = [f for f in _FRAME.finditer(node.meta.get("stack_trace") or "") if not f["file"].startswith(_LIBRARY)]
    if not frames:
        return action()
    file, line, function = frames[-1]["file"], int(frames[-1]["line"]), frames[-1]["function"]
    code = compile("\n" * (line - 1) + "result = action()", file, "exec").replace(co_name=function)
    scope: dict[str, object] = {"action": action}
    exec(code, scope)
    return scope["result"]
