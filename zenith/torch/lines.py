"""The user's lines of an exported graph, at which rules run: messages and graph nodes name them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any

import torch

from zenith.errors import MODULE, SourceLine, is_library, user_line

_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')
_EXPRESSION, _WORD = re.compile(r"[LG]\['"), re.compile(r"\w+")
_LIBRARY = (os.path.dirname(torch.__file__) + os.sep, "torch" + os.sep, "<eval_with_key>")


def line_of(node: torch.fx.Node) -> SourceLine | None:
    """The user's line that a node comes from."""
    found: SourceLine | None = at_line(node, user_line)
    return found


def at_line(node: torch.fx.Node, action: Callable[[], object]) -> Any:
    """Run ``action`` below a frame at the innermost line of a node's stack that is neither torch's nor Zenith's.

    Zenith finds the user's line by walking the stack, and a module is not running when its export is translated.
    """
    stack = _FRAME.finditer(node.meta.get("stack_trace") or "")
    frames = [f for f in stack if not (f["file"].startswith(_LIBRARY) or is_library(f["file"]))]
    module = module_of(node)
    at: SourceLine | None = None
    if frames:
        at = SourceLine(frames[-1]["file"], int(frames[-1]["line"]), frames[-1]["function"])
    elif module:  # one of PyTorch's own: the line is that of the call
        at = user_line()
    if at is None:
        return action()
    code = compile("\n" * (at.line - 1) + "result = action()", at.file, "exec").replace(co_name=at.function)
    scope: dict[str, object] = {"action": action, MODULE: module}
    exec(code, scope)
    return scope["result"]


def module_of(node: torch.fx.Node) -> str:
    """The path of the innermost module that a node comes from, as ``named_modules`` spells it.

    TorchDynamo spells it as an expression, such as ``L['self'].layer._modules['0']``.
    """
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed([path for path, _ in stack.values()]), "")
    if _EXPRESSION.match(path):
        return ".".join(word for word in _WORD.findall(path)[2:] if word != "_modules")
    return "" if path.startswith("_empty_nn_module_stack") else path
