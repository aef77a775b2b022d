"""The product tile of a team: printed as a call of its twin, which computes the guarded region and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zenith.backends.emit import Printer
from zenith.backends.lanes.emit import LanesPrinter
from zenith.backends.memory_effects import buffers_of, symbols_of
from zenith.backends.shared_product import shared_product
from zenith.backends.tiles import Operand, SharedProduct
from zenith.ir.dims import dim, symbol
from zenith.ir.types import DType, float32, float64, int32, int64, uint32

DTYPES = (float32, float64, int32, int64, uint32)
SENTINEL = 77
ROWS, COLUMNS = 8, 6


def matrix(shape: tuple[int, int], dtype: DType, seed: int) -> np.ndarray:
    """Normal numbers, or integers of the whole range, so that products wrap."""
    generator = np.random.default_rng(seed)
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    return generator.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)


def layouts(x: np.ndarray) -> dict[str, tuple[np.ndarray, int, int, int]]:
    """A matrix inside a buffer in four layouts: the buffer, the offset of the matrix, its strides."""
    rows, columns = x.shape
    padded = np.zeros((rows, columns + 3), x.dtype)
    padded[:, 2 : columns + 2] = x
    backwards = np.ascontiguousarray(x[::-1, ::-1])
    return {
        "rows": (x.reshape(-1), 0, columns, 1),
        "columns": (np.ascontiguousarray(x.T).reshape(-1), 0, 1, rows),
        "padded": (padded.reshape(-1), 2, columns + 3, 1),
        "backwards": (backwards.reshape(-1), x.size - 1, -columns, -1),
    }


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("terms", [0, 1, 5, 33])
@pytest.mark.parametrize(("height", "width"), [(0, 3), (1, 1), (3, 0), (5, 6), (8, 2), (8, 6)])
def test_the_guarded_region_of_every_layout(height: int, width: int, terms: int, dtype: DType) -> None:
    a, b = matrix((height, terms), dtype, 1), matrix((terms, width), dtype, 2)
    with np.errstate(all="ignore"):
        expected = a @ b
    for left in layouts(a).values():
        for right in layouts(b).values():
            for onto in (0, 3):
                c = np.full((ROWS, COLUMNS + 2), SENTINEL, dtype.numpy)
                shared_product(
                    ROWS, COLUMNS, height, width, c.reshape(-1), 1, c.shape[1], 1, *left, *right, terms, onto
                )
                found = c[:height, 1 : width + 1].copy()
                c[:height, 1 : width + 1] = SENTINEL
                assert (c == SENTINEL).all()
                before = dtype.numpy.type(SENTINEL if onto else 0)
                np.testing.assert_allclose(found, expected + before, rtol=1e-4 if dtype.is_float else 0)


def statement(onto: Any = 0) -> SharedProduct:
    target, a = (
        Operand("sums", dim(0), (dim(64), dim(1))),
        Operand("x", symbol("top") * symbol("k"), (symbol("k"), dim(1))),
    )
    b = Operand("y", symbol("left"), (dim(1), symbol("n")))
    return SharedProduct(64, 32, symbol("height"), dim(32), target, a, b, symbol("k"), dim(onto))


@pytest.mark.parametrize("printer", [Printer, LanesPrinter])
def test_it_is_printed_as_a_call(printer: type[Printer]) -> None:
    assert printer().statement(statement(onto=symbol("part"))) == [
        "shared_product(64, 32, height, 32, sums, 0, 64, 1, x, k*top, k, 1, y, left, 1, n, k, part)"
    ]


def test_its_buffers_and_symbols() -> None:
    assert buffers_of((statement(),)) == {"sums", "x", "y"}
    assert symbols_of((statement(),)) == {"height", "top", "left", "k", "n"}
