"""What is asked of quantisation, checked."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from zenith.errors import ArgumentError, user_line
from zenith.quantization.observers import Method
from zenith.quantization.smoothing import Strength

Scheme = Literal["static", "dynamic"]
Granularity = Literal["channel", "tensor"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of :func:`zenith.quantize`, where they are described; ArgumentError for others."""

    scheme: Scheme
    method: Method
    percentile: float
    granularity: Granularity
    symmetric: bool
    smooth: Strength
    exclude: tuple[str, ...]

    def __post_init__(self) -> None:
        _check("scheme", self.scheme, Scheme)
        _check("method", self.method, Method)
        _check("granularity", self.granularity, Granularity)
        if self.smooth != "auto" and not 0 <= self.smooth <= 1:
            raise ArgumentError(f"smooth is {self.smooth!r}", where=user_line(),
                                fix='give "auto", or a number from 0 to 1')  # fmt: skip
        if not 50 < self.percentile <= 100:
            raise ArgumentError(f"percentile is {self.percentile}", where=user_line(),
                                fix="give a number above 50, and 100 at most, in percent")  # fmt: skip

    def excludes(self, name: str) -> bool:
        """Whether a product of this name stays as it is."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)


def _check(name: str, value: object, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise ArgumentError(f"{name} is {value!r}", where=user_line(),
                            fix=f"choose one of {', '.join(map(repr, get_args(allowed)))}")  # fmt: skip
