"""What is asked of quantisation, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from zenith.errors import ArgumentError, user_line

Method = Literal["minmax", "percentile", "mse", "entropy"]
Strength = float | Literal["auto"]
Scheme = Literal["static", "dynamic", "weight_only"]
Granularity = Literal["channel", "tensor"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of :func:`zenith.quantize`, where they are described."""

    scheme: Scheme
    method: Method
    percentile: float
    granularity: Granularity
    symmetric: bool
    smooth: Strength
    exclude: Sequence[str]

    def check(self) -> None:
        """ArgumentError for options that there are not."""
        if isinstance(self.exclude, str) or not all(isinstance(pattern, str) for pattern in self.exclude):
            raise ArgumentError(
                f"exclude is {self.exclude!r}", where=user_line(), fix='give patterns in a list: ["*.0"]'
            )
        _check("scheme", self.scheme, Scheme)
        _check("method", self.method, Method)
        _check("granularity", self.granularity, Granularity)
        if self.smooth != "auto" and not _is_number(self.smooth, 0, 1):
            raise ArgumentError(f"smooth is {self.smooth!r}", where=user_line(),
                                fix='give "auto", or a number from 0 to 1')  # fmt: skip
        if not _is_number(self.percentile, 50, 100):
            raise ArgumentError(f"percentile is {self.percentile!r}", where=user_line(),
                                fix="give a number from 50 to 100, in percent")  # fmt: skip

    @property
    def keeps_floats(self) -> bool:
        """Whether activations stay floats."""
        return self.scheme == "weight_only"

    @property
    def smooths(self) -> bool:
        """Whether outliers of activations move to matrices: not where activations stay floats."""
        return self.smooth != 0 and not self.keeps_floats

    @property
    def by_column(self) -> bool:
        """Whether each column of a matrix has a scale of its own."""
        return self.granularity == "channel"

    def excludes(self, name: str) -> bool:
        """Whether a product of this name stays as it is."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def check_names(self, names: Sequence[str]) -> None:
        """ArgumentError for a pattern that excludes none of these."""
        for pattern in self.exclude:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ArgumentError(f"exclude has {pattern!r}, which is the name of no product", where=user_line(),
                                    fix=f"there are {', '.join(names) or 'none'}")  # fmt: skip


def _is_number(value: object, least: float, largest: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= largest


def _check(name: str, value: object, allowed: Any) -> None:
    if value not in get_args(allowed):
        raise ArgumentError(f"{name} is {value!r}", where=user_line(),
                            fix=f"choose one of {', '.join(map(repr, get_args(allowed)))}")  # fmt: skip
