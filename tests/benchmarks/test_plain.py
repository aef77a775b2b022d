"""Plain NumPy programs that were rewritten for JAX give what those give; the table says what was stored."""

import copy

import numpy as np
import pytest

from benchmarks.plain.table import mean_ratio, sentence, table, with_best_numba
from tests.plain.test_programs import PROGRAMS

jax = pytest.importorskip("jax")

from benchmarks.plain.__main__ import REWRITTEN, agrees, on_device  # noqa: E402

BY_NAME = {program.name: program for program in PROGRAMS}
RECORD = {"size": 64, "loops": True, "seconds": {"numpy": 4.0, "numba": 3.0, "numba parallel": 1.0, "zenith": 0.5}}
DOCUMENT = {"programs": {"one": RECORD}, "machine": {"cpu": "a processor", "cores": 2}, "date": "2026-01-01"}


@pytest.mark.parametrize("name", sorted(REWRITTEN))
def test_rewritten_programs_agree(name):
    program = BY_NAME[name]
    given = program.arguments(program.sizes[-1], np.random.default_rng(1))
    plain = copy.deepcopy(given)
    expected = program.function(*plain)
    with jax.enable_x64(True):
        result = jax.block_until_ready(REWRITTEN[name](*on_device(given)))
    assert agrees(result, None, expected, plain, given)


def test_the_better_numba_counts():
    assert mean_ratio([with_best_numba(RECORD)], "numba") == (2.0, 1)
    assert "8.00 times as fast as NumPy" in " ".join(sentence(DOCUMENT).split())
    assert "2.00x" in table(DOCUMENT) and "not measured" in sentence(DOCUMENT)
    assert "no figures" in sentence(None) and table(None) == ""
