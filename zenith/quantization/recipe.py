"""What is asked of quantisation, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, get_args

from zenith.errors import ArgumentError, user_line
from zenith.ir.ops.scaled_product import WIDTHS

Method = Literal["minmax", "percentile", "mse", "entropy"]
Strength = float | Literal["auto"]
Scheme = Literal["static", "dynamic", "weight_only"]
Granularity = str  # "channel", "tensor", or "group:64"


@dataclass(frozen=True, slots=True)
class Recipe:
    """The options of :func:`zenith.quantize`, where they are described."""

    scheme: Scheme = "static"
    method: Method = "minmax"
    percentile: float = 99.99
    granularity: Granularity = "channel"
    symmetric: bool = False
    smooth: Strength = "auto"
    exclude: Sequence[str] = ()
    bits: int = 8

    def check(self) -> None:
        """ArgumentError for options that there are not."""
        if isinstance(self.exclude, str) or not all(isinstance(pattern, str) for pattern in self.exclude):
            raise ArgumentError(
                f"exclude is {self.exclude!r}", where=user_line(), fix='give patterns in a list: ["*.0"]'
            )
        _check("scheme", self.scheme, Scheme)
        _check("method", self.method, Method)
        self._check_granularity()
        if self.smooth != "auto" and not _is_number(self.smooth, 0, 1):
            raise ArgumentError(f"smooth is {self.smooth!r}", where=user_line(),
                                fix='give "auto", or a number from 0 to 1')  # fmt: skip
        if not _is_number(self.percentile, 50, 100):
            raise ArgumentError(f"percentile is {self.percentile!r}", where=user_line(),
                                fix="give a number from 50 to 100, in percent")  # fmt: skip

    def _check_granularity(self) -> None:
        kind, _, size = self.granularity.partition(":") if isinstance(self.granularity, str) else ("", "", "")
        if self.granularity not in ("channel", "tensor") and not (kind == "group" and size.isdecimal() and int(size)):
            raise ArgumentError(f"granularity is {self.granularity!r}", where=user_line(),
                                fix='choose "channel", "tensor", or groups of so many terms: "group:64"')  # fmt: skip
        if type(self.bits) is not int or self.bits not in WIDTHS:
            raise ArgumentError(f"bits is {self.bits!r}", where=user_line(), fix="choose 8 or 4")
        if self.is_grouped and (self.scheme != "weight_only" or self.granularity == "tensor"):
            raise ArgumentError(
                f"{self.bits} bits by {self.granularity} with the scheme {self.scheme!r}", where=user_line(),
                fix='groups and 4 bits are for scheme="weight_only", such as bits=4, granularity="group:64"',
            )  # fmt: skip

    @property
    def group(self) -> int | None:
        """How many terms have one scale; None where all terms of a column do."""
        return int(self.granularity.partition(":")[2]) if ":" in self.granularity else None

    @property
    def is_grouped(self) -> bool:
        """Whether products are of matrices in levels with scales for groups."""
        return self.group is not None or self.bits < 8

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
