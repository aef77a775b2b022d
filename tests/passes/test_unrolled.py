"""Bodies that Python loops write into a program many times are found; what only looks like that is not."""

import numpy as np
import pytest

import zenith
from zenith.passes.unrolled import MANY, unrolled

X = np.ones((4, 4), np.float32)


def found(function, *args):
    return unrolled(zenith.jit(function, convert=False).lower(*args).graph)


def recurrence(x, iterations=20):
    for _ in range(iterations):
        y = np.tanh(x @ x)
        x = y * 0.5 + x
    return x


def test_a_recurrence_with_its_lines_and_counts():
    (loop,) = found(recurrence, X)
    assert (
        loop.iterations == 20 and loop.carries and loop.operations == 5
    )  # product, tanh, number repeated, times, plus
    first = recurrence.__code__.co_firstlineno
    assert [line.line for line in loop.lines] == [first + 2, first + 3]
    assert {line.file for line in loop.lines} == {__file__}


@pytest.mark.parametrize("iterations", [1, 12, MANY - 1])
def test_a_few_iterations_are_not_reported(iterations):
    assert found(lambda x: recurrence(x, iterations), X) == []
    assert found(lambda x: recurrence(x, MANY), X) != []


def test_indices_and_captured_arrays_may_differ_by_iteration():
    weights = [np.full((4, 4), i, np.float32) for i in range(24)]

    def layers(x):
        for weight in weights:
            x = np.maximum(x @ weight, 0)
        return x

    def rows(x):
        return np.stack([np.exp(x[i % 4]) * i for i in range(18)])

    (loop,) = found(layers, X)
    assert loop.iterations == 24 and loop.carries
    (loop,) = found(rows, X)
    assert loop.iterations == 18 and not loop.carries


def test_the_gradient_of_a_loop_is_no_second_one():
    loops = found(zenith.grad(lambda x: recurrence(x).sum()), X)
    assert len({loop.lines for loop in loops}) == len(loops) and any(loop.iterations >= 19 for loop in loops)


def test_loops_in_bodies_are_found_too():
    loops = found(lambda x: zenith.scan(lambda c, p: (recurrence(c), None), x, np.ones(3))[0], X)
    assert [loop.iterations for loop in loops] == [20]


def test_what_is_no_unrolled_loop():
    def chain(x):
        for _ in range(40):
            x = np.sin(x)  # a body of one operation
        return x

    def growing(x):
        for i in range(20):
            x = np.concatenate([x, x[:1] * i])  # each iteration has other types
        return x

    assert found(chain, X) == [] and found(growing, X) == []
    assert found(lambda x: zenith.fori_loop(0, 20, lambda i, x: np.tanh(x @ x) + x, x), X) == []


def test_a_module_is_as_its_author_wrote_it():
    torch = pytest.importorskip("torch")
    layers = [layer for _ in range(20) for layer in (torch.nn.Linear(4, 4), torch.nn.ReLU())]
    module = torch.nn.Sequential(*layers)
    fast = zenith.from_torch(module, (torch.ones(2, 4),))
    with torch.no_grad():
        fast(torch.ones(2, 4))
    assert unrolled(fast.graph) == []


def test_explain_gives_the_advice_for_the_lines():
    fn = zenith.jit(recurrence, convert=False)
    fn(X)
    text = " ".join(str(fn.explain()).split())
    assert "unrolled loops" in text and "zenith.scan" in text and "test_unrolled.py" in text
    few = zenith.jit(lambda x: recurrence(x, 12), convert=False)
    few(X)
    assert "unrolled loops" not in str(few.explain())
