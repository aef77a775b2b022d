"""Arguments for functions that fail while they are traced, and what the text of the error must have."""

from collections.abc import Callable
from typing import Any

import pytest

from zenith.errors import ZenithError
from zenith.ir.dims import dim, symbol
from zenith.ir.types import float16, float32, int64
from zenith.trace import InputSpec, trace

N = symbol("n")
SPECS = [
    InputSpec("x", float32, (N, dim(3)), (5, 3)),
    InputSpec("i", int64, (N,), (5,)),
    InputSpec("h", float16, (N,), (5,)),
]
VALUES = "needs the values of a traced array, which exist only when the program runs"

Case = tuple[Callable[..., Any], type[Exception], str, str, str]


def expect(case: Case, file: str | None) -> None:
    """Trace a function and compare its error: what it begins with, the types, a part of the fix, a line of ``file``."""
    function, error, what, types, fix = case
    with pytest.raises(error) as caught:
        trace(function, SPECS, "f")
    if not what:
        return
    found = caught.value
    assert isinstance(found, ZenithError)
    assert found.what.startswith(what)
    assert ", ".join(map(str, found.types)) == types
    assert (found.fix or "").find(fix) >= 0
    assert found.where is not None
    if file is not None:
        assert found.where.file == file
        assert f"at {file}:{found.where.line} in {found.where.function}" in str(found)
