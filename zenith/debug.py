"""Looking into a running program: ``zenith.debug.print`` prints values in program order."""

from __future__ import annotations

import string

from zenith.errors import TraceError, user_line
from zenith.ir.ops.effect import print_line
from zenith.ir.primitive import get
from zenith.numpy.operands import as_array
from zenith.numpy.typing import ArrayLike
from zenith.trace.bind import graph_value
from zenith.trace.recorder import current_recorder

__all__ = ["print"]


def __dir__() -> list[str]:
    return __all__


def print(format: str, *args: ArrayLike) -> None:
    """Print ``format.format(*args)`` with the arrays' values, each time the program runs.

    Outside a traced function it prints at once. Inside, prints keep their order, and none is removed though its result
    is used by nobody. Raises TraceError when the format needs other than ``len(args)`` arguments.

    >>> print("x = {}", [1, 2])
    x = [1 2]
    """
    _check_format(format, len(args))
    arrays = [as_array(a) for a in args]
    recorder = current_recorder()
    if recorder is None:
        print_line((None, *arrays), {"format": format})
        return
    recorder.add(get("debug_print"), [graph_value(recorder, a) for a in arrays], {"format": format})


def _check_format(format: str, count: int) -> None:
    """An error for a field that no argument fills."""
    fields = [name for _, name, _, _ in string.Formatter().parse(format) if name is not None]
    positions = [int(f) if f.isdigit() else i for i, f in enumerate(f.split(".")[0].split("[")[0] for f in fields)]
    named = [f for f in fields if f and not f[0].isdigit()]
    if named or any(p >= count for p in positions):
        raise TraceError(
            f"debug.print: the format {format!r} needs more or other arguments than the {count} given",
            where=user_line(),
            fix="give one argument for each {}",
        )
