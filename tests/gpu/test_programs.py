"""A share of the random programs on the GPU, against the interpreter: with symbolic sizes and with static ones."""

import os

import pytest

from tests.backends.running import call, compiled
from tests.programs import random_program, reference_bounds, violations

PROGRAMS = int(os.environ.get("ZENITH_GPU_PROGRAMS", "60"))
EACH = 7  # one in so many of the programs that `make fuzz` runs in all other ways


@pytest.mark.parametrize("seed", range(0, PROGRAMS * EACH, EACH))
def test_random_programs(seed):
    symbolic = seed % 2 == 0
    graph, args = random_program(seed, symbolic=symbolic)
    wrong = violations(call(compiled(graph, "cuda"), graph, args), reference_bounds(graph, args))
    assert not wrong, f"random_program({seed}, symbolic={symbolic}): {wrong}"
