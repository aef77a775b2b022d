"""Versions of a kernel's memory: reads that may come after an overwrite are refused, whatever the order of loops."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.passes.compare import program
from zenith.backends.cpu.target import cpu_target
from zenith.backends.cuda.target import cuda_target
from zenith.backends.expressions import Load, Name, Number
from zenith.backends.kernel import (
    Accumulator,
    Branch,
    Fold,
    Kernel,
    Let,
    Loop,
    Scratch,
    Statement,
    Store,
    TaskLoop,
    walk,
)
from zenith.backends.lower.reduce.rows import lower_rows
from zenith.backends.versions import verify
from zenith.errors import CompileError
from zenith.ir.dims import dim, symbol
from zenith.ir.types import float32

AT, OTHER = symbol("i"), symbol("j")


def kernel(*statements: Statement) -> Kernel:
    row = (Scratch("row", float32, 8), *statements)
    return Kernel("k", "test", (), (), dim(3), dim(1), (TaskLoop("t", dim(3), None, (), row, False),))


def loop(*statements: Statement, index: str = "i", stop: int = 8) -> Loop:
    return Loop(index, dim(0), dim(stop), True, statements)


def write(version: int | None, at=AT) -> Store:
    return Store("row", at, Number(1.0, float32), version)


def read(version: int, at=AT, name: str = "v") -> Let:
    return Let(name, Load("row", at, float32, version))


RIGHT = {
    "read in a later loop": (loop(write(1)), loop(read(1, OTHER), index="j")),
    "replaced once it was read": (loop(write(1)), loop(read(1), write(2)), loop(read(2, OTHER), index="j")),
    "read where it was just stored": (loop(write(1)), loop(write(2), read(2))),
    "stored by each case": (Branch(dim(0), 0, ((loop(write(1)),), (loop(write(1)),))), loop(read(1))),
}
WRONG = {
    "never stored": (loop(read(1)),),
    "one element of a row that is being replaced": (loop(write(1)), loop(read(1, dim(0)), write(2))),
    "another element of a row that is being replaced": (loop(write(1)), loop(read(1, 7 - AT), write(2))),
    "replaced before it is read": (loop(write(1)), loop(write(2), read(1))),
    "replaced in an earlier loop": (loop(write(1)), loop(write(2)), loop(read(1))),
    "replaced by what has no version": (loop(write(1)), loop(write(None)), loop(read(1))),
    "stored for fewer iterations than are read": (loop(write(1), stop=4), loop(read(1))),
    "stored by one case": (Branch(dim(0), 0, ((loop(write(1)),), ())), loop(read(1))),
    "replaced by one case": (loop(write(1)), Branch(dim(0), 0, ((), (loop(write(2)),))), loop(read(1))),
    "replaced at the end of an iteration around": (
        loop(write(1)),
        loop(loop(read(1, OTHER), index="j"), loop(write(2, symbol("k")), index="k")),
    ),
    "an accumulator's value, which is read after the stores": (
        loop(write(1)),
        Fold("i", dim(0), dim(8), (write(2),), (Accumulator("a", float32, 0.0, "x + y", Load("row", AT, float32, 1)),)),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_versions_that_are_there_may_be_read(name: str) -> None:
    verify(kernel(*RIGHT[name]))


@pytest.mark.parametrize("name", WRONG)
def test_versions_that_may_be_overwritten_are_refused(name: str) -> None:
    with pytest.raises(CompileError, match=r"kernel k \(test\) reads row\[.*\] for value 1, and another one may"):
        verify(kernel(*WRONG[name]))


def test_versions_of_another_task_are_refused() -> None:
    right = kernel(loop(write(1)), loop(read(1)))
    second = TaskLoop("u", dim(3), None, (), (loop(read(1)),), False)
    verify(right)
    with pytest.raises(CompileError):
        verify(replace(right, body=(*right.body, second)))


SOFTMAX_TWICE = """
m = reduce_max(x, axes=(1,))
a = broadcast(m, shape=(n, 64), axes=(0,))
s = sub(x, a)
h = tanh(s)
g = tanh(h)
f = tanh(g)
e = exp(f)
t = reduce_sum(e, axes=(1,))
b = broadcast(t, shape=(n, 64), axes=(0,))
p = div(e, b)
q = exp(p)
u = reduce_sum(q, axes=(1,))
c = broadcast(u, shape=(n, 64), axes=(0,))
y = div(q, c)
return (y,)"""


@pytest.mark.parametrize("target", [cpu_target, cuda_target])
def test_rows_name_the_versions_that_they_save(target) -> None:
    """A kernel that saves values between its loops, and the errors when one store is left out or moved."""
    (found,) = lower_rows(program("x: f32[n, 64]", SOFTMAX_TWICE), target())
    verify(found)
    stores = [s for s in walk(found.body) if isinstance(s, Store) and s.version is not None]
    assert stores
    for store in stores:
        with pytest.raises(CompileError):
            verify(replace(found, body=_without(found.body, store)))


def _without(statements: tuple[Statement, ...], gone: Statement) -> tuple[Statement, ...]:
    rest = [s for s in statements if s is not gone]
    return tuple(replace(s, body=_without(s.body, gone)) if isinstance(s, Loop | Fold | TaskLoop) else s for s in rest)


def test_a_load_of_another_version_is_another_load() -> None:
    first, second = Load("row", AT, float32, 1), Load("row", AT, float32, 2)
    assert first != second and Name("v", float32) != first
