"""Random nests of loops and branches: backends, and the pipeline without a pass, give the interpreter's results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import zenith
from tests.backends.running import call
from tests.sampling import leave
from zenith.compile import compile_graph
from zenith.ir.graph import Graph
from zenith.ir.interpret import interpret
from zenith.passes.pipeline import run

PROGRAMS = range(6)
State = tuple[Any, Any, Any]  # a row f64[1, n], another one, an integer


class Maker:
    """Draws functions of a state; what they capture are ``u`` f64[n, n], ``xs`` f64[m, 1, n] and ``count`` i64."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.u: Any = None
        self.xs: Any = None
        self.count: Any = None

    def straight(self) -> Callable[[State], State]:
        """A few operations."""
        which, k = self.rng.integers(0, 7), float(self.rng.uniform(-1, 1))
        operations: list[Callable[[Any, Any, Any], State]] = [
            lambda a, b, i: (np.tanh(a @ self.u + b), a, i),
            lambda a, b, i: (b, a, i + 1),
            lambda a, b, i: (a * k + b.sum(), np.sin(b), i * 3 % 7),
            lambda a, b, i: (a - b, b, i - a.shape[1]),
            lambda a, b, i: (np.cos(a), np.tanh(b @ (self.u * k)), abs(i) % 5),
            lambda a, b, i: (a, b * k, i),
            lambda a, b, i: (a + np.max(b, axis=1, keepdims=True), a, i + (b.sum() > 0)),
        ]
        return lambda s: operations[which](*s)

    def any(self, depth: int) -> Callable[[State], State]:
        """A sequence of operations, loops and branches."""
        makers = [self.scan, self.counted, self.until, self.branch] if depth else []
        stages = [self.straight(), self.straight()]
        if makers:
            stages.insert(int(self.rng.integers(0, 3)), makers[self.rng.integers(0, len(makers))](depth - 1))

        def run_all(state: State) -> State:
            for stage in stages:
                state = stage(state)
            return np.tanh(state[0]), np.tanh(state[1]), state[2]

        return run_all

    def scan(self, depth: int) -> Callable[[State], State]:
        inner, backwards = self.any(depth), bool(self.rng.integers(0, 2))

        def step(s: State, x: Any) -> tuple[State, Any]:
            after = inner((s[0] + x @ self.u, s[1], s[2]))
            return after, (after[0], after[2], x * 2)

        def f(state: State) -> State:
            last, (rows, numbers, doubled) = zenith.scan(step, state, self.xs, reverse=backwards)
            return last[0] + rows.sum(0), last[1] + doubled.sum(0), last[2] + numbers.sum()

        return f

    def counted(self, depth: int) -> Callable[[State], State]:
        inner = self.any(depth)
        return lambda s: zenith.fori_loop(0, self.count, lambda i, t: inner((t[0] * i, t[1], t[2] + i)), s)

    def until(self, depth: int) -> Callable[[State], State]:
        inner = self.any(depth)

        def f(state: State) -> State:
            start = (0, state)
            return zenith.while_loop(lambda s: s[0] < abs(s[1][2]) % 3 + 1, lambda s: (s[0] + 1, inner(s[1])), start)[1]

        return f

    def branch(self, depth: int) -> Callable[[State], State]:
        branches = [self.any(depth), self.straight(), self.any(0)]
        return lambda s: zenith.switch(s[2] % 4, branches, s)

    def program(self) -> Callable[..., Any]:
        """A function of arrays."""
        inner = self.any(3)

        def f(a: Any, b: Any, u: Any, xs: Any, count: Any) -> Any:
            self.u, self.xs, self.count = u, xs, count
            return inner((a, b, np.int64(2)))

        return f


def case(seed: int, sizes: tuple[int, int, int]) -> tuple[Graph, list[Any]]:
    """A random program, and arguments of these sizes."""
    n, m, count = sizes
    rng = np.random.default_rng(seed + 1000)
    rows, u = (rng.standard_normal((1, n)) for _ in range(2)), rng.standard_normal((n, n)) / n
    args = [*rows, u, rng.standard_normal((m, 1, n)), np.array(count)]
    return zenith.make_graph(Maker(seed).program())(*args), args


def agree(found: list[Any], expected: list[Any]) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("seed", leave(PROGRAMS[3:], PROGRAMS))
def test_backends_agree(seed: int) -> None:
    graph, _ = case(seed, (3, 2, 2))
    executables = [compile_graph(graph, backend) for backend in ("lanes", "cpu")]
    for sizes in ((3, 2, 2), (17, 3, 1), (2, 0, 0), (8, 1, 3)):
        _, args = case(seed, sizes)
        expected = interpret(graph, *args)
        for executable in executables:
            agree(call(executable, graph, args), expected)


@pytest.mark.parametrize("disabled", ["fold", "simplify", "prune", "precompute", "movement", "cse"])
def test_passes_agree(disabled: str) -> None:
    for seed in PROGRAMS[:3]:
        graph, args = case(seed, (3, 2, 2))
        expected = interpret(graph, *args)
        for passes in ({disabled}, set()):
            agree(interpret(run(graph, debug=True, disabled=passes)[0], *args), expected)
