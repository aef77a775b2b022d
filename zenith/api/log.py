"""The log of compilations: the logger ``zenith`` says what was compiled, why, where it came from, and how long it took.

At the level INFO there is a line for each program, with the reason that ``cache_info()`` gives; at DEBUG one for each
pass, too, of the logger ``zenith.passes``. Like other libraries', the logger writes nothing of its own accord.

>>> import logging, sys, numpy as np, zenith
>>> shown = logging.StreamHandler(sys.stdout)
>>> log.addHandler(shown), log.setLevel(logging.INFO)
(None, None)
>>> @zenith.jit
... def step(x):
...     return np.exp(x) + 1
>>> step(np.zeros(1))
step for (x: numpy f64[_]): compiled in ... s, 1 kernel; first call
array([2.])
>>> log.removeHandler(shown), log.setLevel(logging.NOTSET)
(None, None)
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from zenith.api.recompilation import Reason
from zenith.backends.backend import CompilationReport

log = logging.getLogger("zenith")
log.addHandler(logging.NullHandler())


def tell_program(name: str, call: Sequence[str], reason: Reason, seconds: float, report: CompilationReport) -> None:
    """Say that a program was made for a call; ``seconds`` are those of tracing, too."""
    if log.isEnabledFor(logging.INFO):
        how = "read from the cache on disk" if report.cached else "compiled"
        count = len(report.kernels)
        kernels = f"{count} kernel" + "s" * (count != 1)
        log.info("%s for (%s): %s in %.2f s, %s; %s",
                 name, ", ".join(call), how, seconds, kernels, reason.short or reason)  # fmt: skip


def tell_loaded(name: str, call: Sequence[str], why: str, seconds: float) -> None:
    """Say that a program for such calls was read from a file, which ``why`` names."""
    if log.isEnabledFor(logging.INFO):
        log.info("%s for (%s): %s in %.2f s", name, ", ".join(call), why, seconds)
