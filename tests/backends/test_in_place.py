"""Arrays that are changed in place: where nobody reads them any more, and nowhere else."""

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.running import call, compiled
from zenith.backends.cpu.target import cpu_target
from zenith.backends.plan import plan
from zenith.backends.steps import Launch, Loop, walk
from zenith.ir.interpret import interpret
from zenith.passes.pipeline import run

ROW = np.arange(4.0)
BUFFER = np.arange(24.0).reshape(6, 4)
SIZES = {"buffer0": 6, "buffer1": 4, "row0": 4}  # as programs name those of these arguments


def put(buffer, row, i):
    return znp.dynamic_update_slice(buffer, row[None], (i, 0))


def fill(buffer, row):
    return zenith.fori_loop(0, 6, lambda i, b: put(b, row * i, i), buffer)


def twice(buffer, row):
    return zenith.fori_loop(0, 6, lambda i, b: put(put(b, row * i, i), row, 0), buffer)


def from_before(buffer, row):
    """The row above, doubled: read before it is written over."""
    return zenith.fori_loop(0, 6, lambda i, b: put(b, znp.dynamic_slice(b, (i - 1, 0), (1, 4))[0] * 2, i), buffer)


def while_below(buffer, row):
    return zenith.while_loop(lambda s: s[0] < row[3], lambda s: (s[0] + 1, put(s[1], row, s[0])), (1, buffer))[1]


def nested(buffer, row):
    def outer(i, b):
        return zenith.fori_loop(0, 4, lambda j, c: znp.dynamic_update_slice(c, (row[:1] * i)[None], (i, j)), b)

    return zenith.fori_loop(0, 6, outer, buffer)


def added(buffer, row):
    def step(b, i):
        return zenith.grad(lambda x: (x[i] * row).sum())(b) + b, None

    return zenith.scan(step, buffer, np.array([1, 4, 1]))[0]


def old_kept(buffer, row):
    """What stood there is a result of the step: it is read first, though the program reads it after the row was put."""
    return zenith.scan(lambda b, i: (put(b, row, i), b.sum(0)), buffer, np.arange(6))


def exchanged(buffer, row):
    def step(pair, i):
        return (put(pair[1], row * i, i), pair[0]), None

    return zenith.scan(step, (buffer, buffer + 1), np.arange(5))[0]


def shared(buffer, row):
    def step(pair, i):
        return (put(pair[0], row, i), put(pair[1], -row, i)), None

    return zenith.scan(step, (buffer, buffer), np.arange(3))[0]


def both(buffer, row):
    """Two ways on from one array."""
    made = np.exp(buffer)
    return put(made, row, 1), put(made, row, 2)


def chain(buffer, row):
    made = np.exp(buffer)
    return put(put(put(made, row, 1), row, 2), row, 3) + 1


def backwards(buffer, row):
    def f(b, r):
        return (zenith.fori_loop(0, 6, lambda i, b: put(b, np.sin(r * i), i), b) ** 2).sum()

    return zenith.grad(f, (0, 1))(buffer, row)


def batched(buffer, row):
    return zenith.vmap(fill)(np.stack([buffer, -buffer]), np.stack([row, row + 1]))


FUNCTIONS = [fill, twice, from_before, while_below, nested, added, old_kept, exchanged, shared, both, chain, backwards,
             batched]  # fmt: skip


@pytest.mark.parametrize("backend", ["lanes", "cpu"])
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_results_are_those_of_the_interpreter(function, backend):
    graph = zenith.make_graph(function)(BUFFER, ROW)
    found = call(compiled(graph, backend), graph, [BUFFER, ROW])
    for a, b in zip(found, interpret(graph, BUFFER, ROW), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def planned(function):
    return plan(run(zenith.make_graph(function)(BUFFER, ROW))[0], cpu_target())


def copies(steps):
    """The launches that copy a whole array: what an update or scatter does first, and what a loop begins with."""
    kernels = [s.kernel for s in steps if isinstance(s, Launch)]
    return [k for k in kernels if k.doc == "copy" and k.tasks.evaluate(SIZES) == 24]


@pytest.mark.parametrize(
    "function", [fill, twice, from_before, while_below, nested, old_kept], ids=lambda f: f.__name__
)
def test_a_loop_copies_its_buffer_once(function):
    steps = planned(function).steps
    assert len(copies(steps)) == 1 and len(copies(walk(steps))) == 1
    (loop,) = (s for s in steps if isinstance(s, Loop))
    assert any(c.result == c.other == c.start and c.current == c.following for c in loop.carries)


def test_a_buffer_that_the_next_step_reads_is_copied():
    assert copies(s for loop in planned(exchanged).steps if isinstance(loop, Loop) for s in walk(loop.steps))


def test_outside_of_loops_memory_that_nobody_needs_is_written_over():
    assert len(copies(planned(chain).steps)) == 0
    assert len(copies(planned(both).steps)) == 2  # both are returned, in memory of the caller's


def test_the_way_back_through_a_filled_buffer_is_in_place_too():
    loops = [s for s in planned(backwards).steps if isinstance(s, Loop)]
    assert loops and not copies(s for loop in loops for s in walk(loop.steps))


def test_a_step_costs_what_it_writes():
    """Bytes written in a step do not grow with the buffer."""
    (loop,) = (s for s in planned(fill).steps if isinstance(s, Loop))
    written = sum(s.work.written.evaluate(SIZES) for s in walk(loop.steps) if isinstance(s, Launch))
    assert written <= 4 * 8 + 8 * 8  # a row, the counter, and places made of it
