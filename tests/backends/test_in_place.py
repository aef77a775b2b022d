"""Arrays that are changed in place: where nobody reads them any more, and nowhere else."""

from dataclasses import replace

import numpy as np
import pytest

import zenith
import zenith.numpy as znp
from tests.backends.running import call, compiled
from zenith.backends.cpu.target import cpu_target
from zenith.backends.planner import plan
from zenith.backends.steps import LaunchStep, LoopStep, walk
from zenith.ir.interpret import interpret
from zenith.passes.pipeline import run

ROW = np.arange(4.0)
BUFFER = np.arange(24.0).reshape(6, 4)
SIZES = {"buffer0": 6, "buffer1": 4, "row0": 4}  # by the names that programs give them


def put(buffer, row, i):
    return znp.dynamic_update_slice(buffer, row[None], (i, 0))


def fill(buffer, row):
    return zenith.fori_loop(0, 6, lambda i, b: put(b, row * i, i), buffer)


def twice(buffer, row):
    return zenith.fori_loop(0, 6, lambda i, b: put(put(b, row * i, i), row, 0), buffer)


def from_before(buffer, row):
    """The row above, doubled: read before it is overwritten."""
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


def old_returned(buffer, row):
    """The old contents are a result of the step: read first, though the program reads them after the row is put."""
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
    """Two results of updates of one array."""
    made = np.exp(buffer)
    return put(made, row, 1), put(made, row, 2)


def assigned(buffer, row):
    """A chain of assignments, through views too, to what is returned."""
    made = np.exp(buffer)
    made[1:] += 1
    made[0] = row
    made[:, 2] = row[:1]
    made.T[3, ::2] = 5
    made[[1, 3]] = row
    np.add.at(made, [4, 4], row)
    made.reshape(-1)[7:9] *= 2
    return made


def assigned_to_zeros(buffer, row):
    made = np.zeros_like(buffer)
    made[1:-1] = buffer[2:] + buffer[:-2]
    made[-1] = row
    return made, made.sum(0)


def read_between(buffer, row):
    """Values that are read of an array before it is written stay as they were."""
    made = np.exp(buffer)
    before = made[1] * 2
    made[1] = row
    middle = made[1:3] + 0
    made[2] = before
    return made, before, middle


def where_it_is_read(buffer, row):
    """Each element is read by the task that writes it."""
    made = np.exp(buffer)
    made[1:] += row
    made[:, 1:] *= made[:, 1:] - 1
    return made


def next_to_where_it_is_read(buffer, row):
    made = np.exp(buffer)
    made[1:-1] = made[:-2] + made[2:] * row
    return made


def chain(buffer, row):
    made = np.exp(buffer)
    return put(put(put(made, row, 1), row, 2), row, 3) + 1


def backwards(buffer, row):
    def f(b, r):
        return (zenith.fori_loop(0, 6, lambda i, b: put(b, np.sin(r * i), i), b) ** 2).sum()

    return zenith.grad(f, (0, 1))(buffer, row)


def batched(buffer, row):
    return zenith.vmap(fill)(np.stack([buffer, -buffer]), np.stack([row, row + 1]))


FUNCTIONS = [fill, twice, from_before, while_below, nested, added, old_returned, exchanged, shared, both, chain,
             backwards, batched, assigned, assigned_to_zeros, read_between,
             where_it_is_read, next_to_where_it_is_read]  # fmt: skip
THOROUGH = (assigned_to_zeros, read_between, next_to_where_it_is_read)  # compiled by make fuzz only


COMPILED = [pytest.param("cpu", f, marks=[pytest.mark.thorough] if f in THOROUGH else []) for f in FUNCTIONS]


@pytest.mark.parametrize(("backend", "function"), [*(("lanes", f) for f in FUNCTIONS), *COMPILED],
                         ids=lambda f: getattr(f, "__name__", f))  # fmt: skip
def test_results_are_those_of_the_interpreter(function, backend):
    graph = zenith.make_graph(function)(BUFFER, ROW)
    found = call(compiled(graph, backend), graph, [BUFFER, ROW])
    for a, b in zip(found, interpret(graph, BUFFER, ROW), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def planned(function):
    return plan(run(zenith.make_graph(function)(BUFFER, ROW))[0], replace(cpu_target(), sequential=False))


def copies(steps):
    """The launches that copy a whole array: the first kernel of an update, a scatter or a loop."""
    kernels = [s.kernel for s in steps if isinstance(s, LaunchStep)]
    return [k for k in kernels if k.doc == "copy" and k.tasks.evaluate(SIZES) == 24]


@pytest.mark.parametrize(
    "function", [fill, twice, from_before, while_below, nested, old_returned], ids=lambda f: f.__name__
)
def test_a_loop_copies_its_buffer_once(function):
    steps = planned(function).steps
    assert len(copies(steps)) == 1 and len(copies(walk(steps))) == 1
    (loop,) = (s for s in steps if isinstance(s, LoopStep))
    assert any(c.result == c.other == c.start and c.current == c.following for c in loop.carries)


def test_a_buffer_that_the_next_step_reads_is_copied():
    assert copies(s for loop in planned(exchanged).steps if isinstance(loop, LoopStep) for s in walk(loop.steps))


def test_outside_of_loops_memory_that_nobody_needs_is_overwritten():
    assert len(copies(planned(chain).steps)) == 0
    assert len(copies(planned(both).steps)) == 1  # the last is made where the array was, which is returned nowhere


@pytest.mark.parametrize("function", [assigned, assigned_to_zeros, read_between], ids=lambda f: f.__name__)
def test_a_chain_of_assignments_is_written_where_it_is_returned(function):
    """No step but the first touches the whole array, and no memory but the result's is as large."""
    found = planned(function)
    first, *others = [s for s in found.steps if any(p.name == "result0" for p in s.allocations)]
    whole = [s for s in others if s.kernel.tasks.evaluate(SIZES) >= 24 and s.allocations[-1].name == "result0"]
    assert not whole and first.kernel.tasks.evaluate(SIZES) == 24
    slots = {p.name for s in found.steps for p in s.allocations if p.kind == "slot"}
    assert all(b.size.evaluate(SIZES) < 24 for s in found.steps
               for b, p in zip(s.kernel.buffers, s.allocations, strict=True) if p.name in slots)  # fmt: skip


def test_slices_that_are_read_where_they_are_written_need_no_memory():
    here, shifted = planned(where_it_is_read), planned(next_to_where_it_is_read)
    assert [len(here.steps), len(here.slots)] == [3, 0]
    assert [len(shifted.steps), len(shifted.slots)] == [3, 1]  # the slice is computed first


def test_an_assignment_is_recorded_once_where_sizes_are_found_equal():
    def function(buffer, other):
        made = buffer * 1
        made[1:] += other[1:]
        return made

    graph = zenith.make_graph(function)(BUFFER, BUFFER)
    assert [node.primitive.name for _, node in graph.nodes()].count("update_slice") == 1


def test_memory_does_not_grow_with_the_number_of_assignments():
    def count(function):
        """Bytes of the arena, for a long buffer of short rows."""
        arena = zenith.jit(function, backend="lanes").lower(BUFFER, ROW).compile().memory_analysis().arena
        return arena.evaluate({**SIZES, "buffer0": 10_000})

    def more(buffer, row):
        made = assigned(buffer, row)
        for i in range(5):
            made[i, 1:] = row[1:] * i
        return made

    assert 0 <= count(more) - count(assigned) < 10_000


def test_the_backward_pass_through_a_filled_buffer_is_in_place_too():
    loops = [s for s in planned(backwards).steps if isinstance(s, LoopStep)]
    assert loops and not copies(s for loop in loops for s in walk(loop.steps))


def test_a_step_costs_what_it_writes():
    """Bytes written in a step do not grow with the buffer."""
    (loop,) = (s for s in planned(fill).steps if isinstance(s, LoopStep))
    written = sum(s.work.written.evaluate(SIZES) for s in walk(loop.steps) if isinstance(s, LaunchStep))
    assert written <= 4 * 8 + 8 * 8  # a row, the counter, and indices that follow from it
