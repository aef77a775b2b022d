"""Random programs, and random nests of loops and branches, under derivatives and batching."""

import numpy as np
import pytest

from tests.control.test_random import Maker
from tests.fuzz import programs
from tests.programs import random_program
from tests.transforms.checks import check_forward_against_reverse, check_gradients, check_second_derivatives
from zenith.ir.primitive import NoRule
from zenith.ir.retype import array_in_double, in_double
from zenith.trace.nested import replay

PROGRAMS = programs(10, one_in=10)
SECOND = programs(5, one_in=20)
NESTS = programs(1, one_in=200)
BLOCK = 5


def _has_derivatives(graph):
    """Whether floats that follow from floats have rules; what only passes make has none: they run later."""
    for number, node in graph.nodes():
        floats = [any(v.dtype.is_float for v in values) for values in (graph.args(number), graph.results(number))]
        if all(floats) and isinstance(node.primitive.jvp, NoRule):
            return False
    return True


def problem(seed):
    """A program in float64 as a function from its floating-point arguments to its floating-point results."""
    graph, args = random_program(seed, symbolic=False)
    graph, args = in_double(graph), [np.asarray(array_in_double(a)) for a in args]
    moving = [i for i, a in enumerate(args) if a.dtype.kind == "f"] if _has_derivatives(graph) else []

    def function(*floats):
        every = list(args)
        for i, value in zip(moving, floats, strict=True):
            every[i] = np.reshape(value, args[i].shape)  # sizes are numbers in this program, under jit too
        found = replay(graph, every)
        return [r for r in found if r.dtype.kind == "f"]

    return function, [args[i] for i in moving]


class Reversible(Maker):
    """Nests without loops whose number of steps is unknown, which reverse mode refuses."""

    def until(self, depth):
        return self.counted(depth)


def nest(seed):
    """A random nest of loops and branches as a function of its floating-point arguments."""
    maker = Reversible(seed)
    inner = maker.any(2)

    def function(a, b, u, xs):
        maker.u, maker.xs, maker.count = u, xs, 2
        return list(inner((a, b, np.int64(2)))[:2])

    rng = np.random.default_rng(seed)
    return function, [rng.standard_normal(shape) for shape in ((1, 3), (1, 3), (3, 3), (2, 1, 3))]


@pytest.mark.thorough
@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(NESTS))
def test_transforms_of_random_nests_agree(seed):
    function, args = nest(seed)
    rng = np.random.default_rng(seed)
    for check in (check_forward_against_reverse, check_gradients, check_second_derivatives):
        assert check(function, args, rng), "all of these values are finite"


def compared(first, *checks):
    """How much the checks compared on a block of programs."""
    count = 0
    with np.errstate(all="ignore"):
        for seed in range(first, first + BLOCK):
            function, args = problem(seed)
            if args:
                count += sum(check(function, args, np.random.default_rng(seed)) for check in checks)
    return count


@pytest.mark.thorough
@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, SECOND, BLOCK))
def test_second_derivatives_of_random_programs_agree(first):
    assert compared(first, check_second_derivatives), "there is something to compare"


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, PROGRAMS, BLOCK))
def test_transforms_of_random_programs_agree(first):
    assert compared(first, check_forward_against_reverse, check_gradients), "there is something to compare"


def test_most_random_programs_have_derivatives():
    assert sum(bool(problem(seed)[1]) for seed in range(20)) > 12
