"""Pickled functions: what comes back computes the same, here, in multiprocessing's workers and in Dask's."""

from __future__ import annotations

import functools
import multiprocessing
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest
import torch

import zenith
from zenith.errors import RecompilationError, ZenithError

ROOT = Path(__file__).resolve().parents[2]
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@zenith.jit
def by_name(x: Any) -> Any:
    return np.tanh(x) * 2


class Model:
    """An object with a jitted method."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    @zenith.jit
    def scaled(self, x: Any) -> Any:
        return np.tanh(x) * self.factor


def test_a_function_that_its_module_has_goes_by_its_name():
    text = pickle.dumps(by_name)
    assert len(text) < 100 and pickle.loads(text) is by_name
    assert cloudpickle.loads(cloudpickle.dumps(by_name)) is by_name


def test_a_function_without_a_name_goes_with_all_options_of_jit():
    weights = np.arange(4, dtype=np.float32)

    def f(x: Any, power: int) -> Any:
        return (x * weights) ** power

    jitted = zenith.jit(f, static_argnums=1, dims={"x": (zenith.Dim("rows", max=5), None)}, max_compilations=2)
    sent = cloudpickle.loads(cloudpickle.dumps(jitted))
    np.testing.assert_array_equal(sent(X, 2), jitted(X, 2))
    assert sent.cache_info().misses == 1
    with pytest.raises(ZenithError, match="rows"):
        sent(np.ones((6, 4), np.float32), 2)
    with pytest.raises(RecompilationError):
        [sent(X, power) for power in (3, 4)]
    assert sent.numerics == jitted.numerics


def test_gradients_and_mapped_functions_go_too():
    def loss(x: Any) -> Any:
        return np.sum(np.sin(x) ** 2)

    for made in (zenith.jit(zenith.grad(loss)), zenith.jit(zenith.vmap(loss)), zenith.jit(zenith.grad(by_name_sum))):
        np.testing.assert_array_equal(cloudpickle.loads(cloudpickle.dumps(made))(X), made(X))


def test_what_wraps_a_jitted_function_goes_too():
    def loss(x: Any) -> Any:
        return np.sum(np.sin(x) ** 2)

    jitted = zenith.jit(loss)

    @functools.wraps(jitted)
    def own(x: Any) -> Any:
        return jitted(x)

    x = X.astype(np.float64)
    wrapped = [zenith.vmap(jitted), zenith.grad(jitted), zenith.value_and_grad(jitted), zenith.checkpoint(jitted), own]
    wrapped += [zenith.custom_vjp(jitted), zenith.jit(zenith.grad(jitted)), zenith.grad(own)]
    for made in wrapped:
        assert "_specializer" not in vars(made) or isinstance(made, type(jitted))
        restored = cloudpickle.loads(cloudpickle.dumps(made))
        for one, other in zip(zenith.tree.flatten(restored(x))[0], zenith.tree.flatten(made(x))[0], strict=True):
            np.testing.assert_array_equal(one, other)
        assert restored.__name__ == made.__name__ == "loss"


def by_name_sum(x: Any) -> Any:
    return np.sum(by_name(x))


def test_a_method_goes_with_its_instance():
    sent = pickle.loads(pickle.dumps(Model(3.0).scaled))
    np.testing.assert_array_equal(sent(X), Model(3.0).scaled(X))


def test_a_module_goes_with_its_weights_and_a_loaded_one_by_its_file(tmp_path: Path):
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()
    x = torch.from_numpy(X)
    with torch.no_grad():
        compiled = zenith.from_torch(module, (x,))
        expected = compiled(x)
        sent = pickle.loads(pickle.dumps(compiled))
        assert torch.equal(sent(x), expected)
        compiled.save(tmp_path / "module.zenith")
        loaded = zenith.load(tmp_path / "module.zenith")
        assert torch.equal(pickle.loads(pickle.dumps(loaded))(x), expected)


def test_a_module_whose_weights_were_released_says_what_to_do():
    module = torch.nn.Linear(4, 3).eval()
    with torch.no_grad():
        compiled = zenith.from_torch(module, (torch.from_numpy(X),), release_weights=True)
        compiled(torch.from_numpy(X))
    with pytest.raises(ZenithError, match="save"):
        pickle.dumps(compiled)


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this platform does not fork")
def test_workers_of_multiprocessing_get_functions():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for result in pool.starmap(called, [(by_name, X), (by_name, X)]):
            np.testing.assert_array_equal(result, by_name(X))


def called(function: Any, x: Any) -> Any:
    """Call what was sent."""
    return function(x)


SPAWNING = """
import multiprocessing
import numpy as np
import zenith

@zenith.jit
def double(x):
    return x * 2

def called(function, x):
    return function(x)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(called, (double, np.ones(2))))
"""

DASK = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "dask.md").read_text(), re.DOTALL)[1]


@pytest.mark.parametrize(
    ("script", "printed"),
    [(SPAWNING, "[2. 2.]"), pytest.param(DASK, "(100000, 20) True", marks=pytest.mark.thorough)],
    ids=["spawn", "dask"],
)
def test_what_a_script_defines_reaches_new_processes(tmp_path: Path, script: str, printed: str):
    path = tmp_path / "script.py"
    path.write_text(script)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    found = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, timeout=300)
    assert (found.stdout.strip(), found.returncode) == (printed, 0), found.stderr
