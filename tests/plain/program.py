"""The record of a program in plain NumPy: the function as somebody wrote it, and what the tests call it with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Program:
    """A function, and its arguments for a size.

    ``sizes`` are the three sizes of its calls. ``smooth`` numbers the arguments of which derivatives are compared with
    finite differences; ``irreversible`` is the reason why there are none in reverse mode yet. ``several`` is the reason
    why the three sizes are not yet one program. ``largest`` is the largest size that is measured: less than usual where
    the work grows exponentially, or where rounding grows so much that results cannot be compared. ``hangs`` names the
    contenders of the benchmark whose programs do not end, or end the process.
    """

    function: Callable[..., Any]
    arguments: Callable[[int, np.random.Generator], tuple[Any, ...]]
    sizes: tuple[int, ...] = (9, 12, 17)
    smooth: tuple[int, ...] = ()
    rtol: float = 1e-10
    irreversible: str = ""
    several: str = ""
    largest: int = 1 << 17
    hangs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__
