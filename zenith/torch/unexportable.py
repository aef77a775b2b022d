"""What ``torch.export`` cannot export, in words for the user: what it met, at which line of the module, what to do."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Sequence
from types import TracebackType

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, free_unbacked_symbols
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from zenith.api.log import log
from zenith.errors import SourceLine, ZenithError, is_library, user_line
from zenith.torch import aten
from zenith.trace.foreign import steps_of

_COMPILE = 'torch.compile(module, backend="zenith") leaves such parts to Python and PyTorch'
_PYTHON = os.path.dirname(os.__file__) + os.sep
_PYTORCHS_ADVICE = re.compile(
    r"\s*(?:The error above occurred when calling torch\.export|While executing %|If this type holds tensors, you need)"
)
_OF_OPERATORS = (DataDependentOutputException, DynamicOutputShapeException, UnsupportedOperatorException)


def explained(error: Exception, name: str, tensors: Sequence[torch.Tensor]) -> ZenithError:
    """What torch.export raised for the module ``name`` and these tensors, as an error of Zenith's.

    PyTorch's own report, a hundred lines of its functions, is the error's ``__context__``, and in the log at DEBUG.
    """
    log.debug("torch.export failed for %s", name, exc_info=error)
    sizes = ", ".join(str(tuple(t.shape)) for t in tensors)
    why, fix = _reason(error)
    return ZenithError(f"torch.export cannot export {name} for shapes {sizes}: {why}",
                       where=_line(error) or user_line(), fix=fix)  # fmt: skip


def of_module(error: Exception) -> Exception | None:
    """The error with the module's own lines alone, where one of these raised it; None where PyTorch did."""
    if not _is_own(error):
        return None
    found: TracebackType | None = None
    for step in reversed(list(steps_of(error.__traceback__))):
        file = step.tb_frame.f_code.co_filename
        if not (is_library(file) or file.startswith("<")):
            found = TracebackType(found, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return error.with_traceback(found)


def _is_own(error: Exception) -> bool:
    """Whether a line of the module's raised an error, and not a library that it calls."""
    *_, last = [None, *steps_of(error.__traceback__)]
    return last is not None and not is_library(last.tb_frame.f_code.co_filename)


def _reason(error: Exception) -> tuple[str, str]:
    """Why, and what to do."""
    text = _PYTORCHS_ADVICE.split(str(error))[0].rstrip()
    if _has_packed_sequence(error):
        return text, "packed sequences are not supported: give the layer the padded tensor, and mask what is " \
                     "past an end"  # fmt: skip
    if re.search(r"\w+Cache\b", text):
        return text, "have the model return no cache: set model.config.use_cache = False, or pass use_cache=False"
    if isinstance(error, GuardOnDataDependentSymNode):
        what = f"it branches on a tensor's values, or makes a size of them ({text.partition(chr(10))[0].strip()})"
        return what, f"choose with torch.where or torch.cond, and compute sizes from x.shape; {_COMPILE}"
    if isinstance(error, _OF_OPERATORS):
        operator = error.args[0] if error.args else None
        what, fix = aten.reason_of(operator) or ("an export cannot infer what its result looks like", "")
        return f"{text}: {what}", "; ".join(filter(None, (fix, _COMPILE)))
    if "which is not a known type" in text:
        return text, "return tensors in tuples, lists and dicts, or register the class with " \
                     "torch.export.register_dataclass, or torch.utils._pytree.register_pytree_node"  # fmt: skip
    own = f"{type(error).__name__}: " if _is_own(error) else ""
    return own + text, f"check that the module itself takes such arguments; {_COMPILE}"


def _line(error: Exception) -> SourceLine | None:
    """The innermost line of the error's traceback that is the user's."""
    found = None
    for frame, line in traceback.walk_tb(error.__traceback__):
        file, function = frame.f_code.co_filename, frame.f_code.co_name
        if not (is_library(file) or (file.startswith(("<", _PYTHON)) and "-packages" not in file)):
            found = SourceLine(file, line, function)
    return found


def _has_packed_sequence(error: Exception) -> bool:
    """Whether a function that failed was given sequences of several lengths, whose sizes are values of a tensor."""
    frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__))
    return any(isinstance(value, PackedSequence) for frame in frames for value in frame.f_locals.values())


def has_unknown_size(node: torch.fx.Node) -> bool:
    """Whether a node is a tensor with a size that depends on values, or a whole number that does."""
    leaves = pytree.tree_leaves(node.meta.get("val"))
    return any(isinstance(leaf, torch.Tensor | torch.SymInt) and free_unbacked_symbols(leaf) for leaf in leaves)


def first_of_unknown_size(graph: torch.fx.Graph) -> torch.fx.Node | None:
    """The operator that makes the first size which depends on values; None where an argument has one, or none does."""
    if any(map(has_unknown_size, graph.find_nodes(op="placeholder"))):
        return None
    return next((n for n in graph.nodes if n.op == "call_function" and has_unknown_size(n)), None)
