"""What a line of the user's asks of NumPy itself: functions that do not look whether an argument is a traced array.

NumPy asks the arguments of most functions whether they know them. The others take arguments for what they are made of,
and fail somewhere inside; what is said then names the function of ``zenith.numpy`` that stands for it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from zenith.errors import SourceLine
from zenith.trace.dispatch import refused, registered

_NAMES = re.compile(r"\b(?:np|numpy)\.((?:\w+\.)*\w+)")


def instead(line: SourceLine | None) -> str:
    """What to write in place of NumPy's functions that a line names; nothing where it names none of that kind."""
    import zenith.numpy

    for name in _NAMES.findall("" if line is None else line.code):
        theirs, ours = _found(np, name), _found(zenith.numpy, name)
        is_function = callable(theirs) or hasattr(type(theirs), "__getitem__")
        if (
            not is_function
            or registered(theirs) is not None
            or (isinstance(theirs, type) and issubclass(theirs, np.generic))
        ):
            continue
        reason = refused(theirs)
        if reason is not None:
            return f"numpy.{name}: {reason[0]}; {reason[1]}"
        if ours is not None and ours is not theirs:
            return f"write zenith.numpy.{name}, which takes traced arrays and sizes"
    return ""


def _found(module: Any, name: str) -> Any:
    """What a module has under a name with dots; None for nothing."""
    for part in name.split("."):
        module = getattr(module, part, None)
    return module
