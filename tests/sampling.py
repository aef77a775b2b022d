"""Which cases of a test are left to `make fuzz`: what takes long, and shows little that shorter cases do not.

A test says so itself where a case is the longer one by its nature (``leave``); tests/thorough.txt lists cases that were
measured to be the longest of their tests.
"""

from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

import pytest

THOROUGH = frozenset(Path(__file__).with_name("thorough.txt").read_text().splitlines())


def leave(later: Container[Any] | Callable[[Any], bool], cases: Iterable[Any]) -> list[Any]:
    """A test's parameters, of which those in ``later`` are marked ``thorough``; a tuple is several arguments."""
    is_later = later if callable(later) else later.__contains__
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=[pytest.mark.thorough] * is_later(case))
        for case in cases
    ]
