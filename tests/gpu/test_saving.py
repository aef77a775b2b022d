"""Saved programs on a GPU: another process, which has no compiler, computes the same bits."""

import subprocess
import sys
import textwrap

import numpy as np

import zenith
from tests.gpu.device import download, upload

TABLE = np.linspace(-1, 1, 96 * 40, dtype=np.float32).reshape(96, 40)
SIZES = (32, 1, 77)


def features(x):
    return np.tanh(x @ TABLE) + x.sum(axis=1, keepdims=True)


def test_bits_are_equal_at_several_sizes(rng, tmp_path):
    function = zenith.jit(features)
    inputs = [rng.standard_normal((rows, 96), dtype=np.float32) for rows in SIZES]
    wanted = [download(function(upload(x))) for x in inputs]
    function.save(tmp_path / "features.zenith")
    loaded = zenith.load(tmp_path / "features.zenith")
    for x, y in zip(inputs, wanted, strict=True):
        assert download(loaded(upload(x))).tobytes() == y.tobytes()


def test_another_process_without_a_compiler(real, rng, tmp_path):
    function = zenith.jit(features)
    inputs = {str(rows): rng.standard_normal((rows, 96), dtype=np.float32) for rows in SIZES}
    np.savez(tmp_path / "inputs.npz", **inputs)
    np.savez(tmp_path / "wanted.npz", **{name: download(function(upload(x))) for name, x in inputs.items()})
    function.save(tmp_path / "features.zenith")
    script = f"""
        import sys
        sys.modules["numba"] = None  # importing it is an error
        import cupy, numpy as np, zenith
        function = zenith.load({str(tmp_path / "features.zenith")!r})
        inputs, wanted = (np.load(f"{tmp_path}/{{name}}.npz") for name in ("inputs", "wanted"))
        for name in inputs:
            assert cupy.asnumpy(function(cupy.asarray(inputs[name]))).tobytes() == wanted[name].tobytes(), name
        """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
