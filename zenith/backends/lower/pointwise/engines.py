"""The engines for elementwise groups and for slices that are overwritten."""

from __future__ import annotations

from zenith.backends.engines import Engine, always
from zenith.backends.lower.pointwise.loops import lower_loops
from zenith.backends.lower.pointwise.overwrite import lower_overwrite

ENGINES: tuple[Engine, ...] = (
    Engine("loops", ("loops",), "elementwise operations of one shape, with the index maps that they read through", 0,
           always, lambda body, target, fixed: lower_loops(body, in_loops=target.threads is None)),
    Engine("overwrite", ("update",), "a slice of an array overwritten, in place where nobody needs the array", 0,
           always, lambda body, target, fixed: lower_overwrite(body)),
)  # fmt: skip
