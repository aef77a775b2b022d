"""Which cases of a test are left to `make fuzz`: what takes long, and shows little that shorter cases do not."""

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def leave(later: Container[Any] | Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """A test's parameters, of which those in ``later`` are marked ``thorough``; a tuple is several arguments."""
    is_later = later if callable(later) else later.__contains__
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.thorough] * is_later(case))
        for case in cases
    ]
