"""Tuning on a GPU: schedules are measured there, and whichever a table names, no bit of a product changes."""

import numpy as np

import zenith
from tests.gpu.device import download, upload
from zenith.backends.cuda import tuning
from zenith.backends.cuda.tuning import Measured, TuningTable
from zenith.config import config
from zenith.tune import tune

SIZES = (1, 128, 256, 128)  # one product: its rows, columns and terms


def product(x, w):
    """By a function of its own, so that it is compiled anew."""
    known = [zenith.ShapeDtypeStruct(a.shape, a.dtype) for a in (x, w)]
    lowered = zenith.jit(lambda x, w: x.astype(np.float32) @ w.astype(np.float32), backend="cuda").lower(*known)
    return download(lowered.compile()(upload(x), upload(w)))


def test_no_schedule_changes_a_bit(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(config, "cache_dir", tmp_path)
    monkeypatch.setattr(config, "tuned", True)
    _, m, n, k = SIZES
    x, w = (rng.standard_normal(shape, dtype=np.float32).astype(np.float16) for shape in ((m, k), (k, n)))
    before = product(x, w)
    ((name, measured),) = tune([SIZES], "f16").items()
    assert measured.schedule in measured.microseconds and min(measured.microseconds.values()) > 0
    for schedule in measured.microseconds:
        tuning.write(tuning.own_file(), TuningTable({name: Measured(schedule)}))
        assert np.array_equal(product(x, w), before)
