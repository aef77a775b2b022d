"""Products of matrices."""

from __future__ import annotations

from typing import Any

import zenith.numpy as znp
from zenith.torch.aten.rules import RULES, Context, rule

for _name in ("mm", "bmm"):
    RULES[_name] = lambda c, x, y: znp.matmul(x, y)


@rule("addmm", "baddbmm")
def _addmm(c: Context, bias: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    product = znp.matmul(x, y)
    return (product if alpha == 1 else product * alpha) + (bias if beta == 1 else bias * beta)
