"""What ``zenith.<TAB>`` shows: every public name, also of what is imported at its first use, and nothing else."""

import importlib.util
import inspect
import subprocess
import sys

import pytest

import zenith

MODULES = ("debug", "errors", "kernels", "memory", "nn", "optim", "random", "tree", "checkpoint_policies")
WITH_TORCH = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs PyTorch")


def test_dir_has_all_public_names():
    absent = set() if importlib.util.find_spec("torch") else {"from_torch"}
    assert set(dir(zenith)) == {*zenith.__all__, "__version__"} - absent
    assert all(hasattr(zenith, name) for name in dir(zenith))
    assert dict(inspect.getmembers(zenith)).keys() == set(dir(zenith))


def test_lazy_names_are_public_and_where_the_table_says():
    assert set(zenith.__homes__) - set(zenith.__all__) == {"transforms"}
    eager = set(zenith.__all__) - set(zenith.__homes__)
    assert eager <= set(vars(zenith)) and len(eager) > 15
    for room, names in zenith.__rooms__.items():
        module = importlib.import_module(f"zenith.{room}")
        for name in set(names) & set(dir(zenith)):
            assert getattr(zenith, name) is (module if name == room else getattr(module, name))
    with pytest.raises(AttributeError, match="module 'zenith' has no attribute 'jitt'"):
        zenith.jitt  # noqa: B018


@WITH_TORCH
def test_all_names_can_be_imported_at_once():
    found: dict[str, object] = {}
    exec("from zenith import *", found)
    assert set(zenith.__all__) <= set(found)


@pytest.mark.parametrize("name", MODULES)
def test_modules_show_their_own_names(name):
    module = getattr(zenith, name)
    assert sorted(dir(module)) == sorted(module.__all__)
    assert all(hasattr(module, n) for n in dir(module))
    assert not {"Any", "annotations", "optree", "np"} & set(dir(module))


@WITH_TORCH
def test_the_room_of_modules_shows_lazy_names():
    assert dir(zenith.torch) == sorted(zenith.torch.__all__)
    assert all(hasattr(zenith.torch, name) for name in dir(zenith.torch))


def test_the_array_namespace_shows_no_files():
    shown = set(dir(zenith.numpy))
    assert {"tanh", "matmul", "linalg", "fft", "special", "abs"} <= shown
    assert not {"along", "elementwise", "absent"} & shown
    assert all(hasattr(zenith.numpy, name) for name in shown)


def test_dir_imports_nothing():
    program = "import sys, zenith; dir(zenith); assert 'torch' not in sys.modules and 'zenith.nn' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
