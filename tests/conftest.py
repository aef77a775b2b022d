"""What every test shares: deterministic examples, a seeded generator, and a cache of compiled kernels of its own."""

import atexit
import gc
import os
import shutil
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests.gpu.device import FAKE, MODE, lack
from tests.sampling import THOROUGH

COLLECTED = pytest.StashKey[set[str]]()  # the names of all tests of this session

# Schedules are the cost model's in all tests that do not ask for others.
os.environ["ZENITH_TUNED"] = "0"
# Set before Zenith reads its settings. Workers of one run, and processes that tests start, inherit the folder.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["ZENITH_CACHE_DIR"] = tempfile.mkdtemp(prefix="zenith-tests-")
    atexit.register(shutil.rmtree, os.environ["ZENITH_CACHE_DIR"], ignore_errors=True)

# The same examples on every run and every machine; compiling takes longer than hypothesis expects of a test.
settings.register_profile(
    "deterministic", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("deterministic")

# A process of tests keeps some gigabytes of modules, graphs and kernels; Python would look through them all the time.
gc.set_threshold(20_000, 20, 20)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """What is alive after a file of tests stays for the run: the collector need not look at it again."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_sessionstart(session):
    """Where tests on a GPU were asked for, nothing begins without one."""
    if MODE == "required" and (why := lack()) is not None:
        pytest.exit(f"tests on a GPU were asked for, and none can be used: {why}", returncode=1)


def pytest_itemcollected(item):
    """Tests that tests/thorough.txt lists are marked ``thorough`` (see tests/sampling.py)."""
    item.session.stash.setdefault(COLLECTED, set()).add(item.nodeid)
    if item.nodeid in THOROUGH:
        item.add_marker(pytest.mark.thorough)


def pytest_collection_finish(session):
    """Of files that were collected whole, all tests that the list names are there."""
    known = session.stash.get(COLLECTED, set())
    files = {name.partition("::")[0] for name in known}
    gone = sorted(name for name in THOROUGH - known if name.partition("::")[0] in files)
    is_whole = "ZENITH_FUZZ_PROGRAMS" not in os.environ  # which may ask for fewer random programs
    if gone and is_whole and not any("::" in str(word) for word in session.config.args):
        raise pytest.UsageError(f"tests/thorough.txt names tests that are gone: {', '.join(gone)}")


def pytest_collection_modifyitems(items):
    """Tests marked ``gpu`` are skipped with the reason where no GPU can be used; see tests/gpu/device.py."""
    ours = [item for item in items if item.get_closest_marker("gpu")]
    why = lack() if ours else None
    if why is None:
        return
    for item in ours:
        item.add_marker(pytest.mark.skip(reason=f"no GPU: {why}"))


@pytest.fixture(autouse=True)
def _driver_of_gpu_tests(request):
    """Where ``ZENITH_GPU=fake``, tests marked ``gpu`` have the driver without a device."""
    if FAKE and request.node.get_closest_marker("gpu"):
        request.getfixturevalue("fake_gpu")


@pytest.fixture
def fake_gpu(monkeypatch):
    """A driver without a device, and programs that are linked for it without machine code."""
    from tests.backends.cuda.fake_driver import FakeCompiler, FakeDriver, in_place_of_cuda

    found = FakeDriver(memory=1 << 33)
    monkeypatch.setattr("zenith.backends.cuda.link.compile_kernel", FakeCompiler())
    with in_place_of_cuda(found):
        yield found


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator that gives each test the same numbers on every run."""
    return np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _leave_jax_as_it_was():
    """JAX has 64-bit types in the tests that ask for them alone (tests/transforms/compare.py)."""
    yield
    if "jax" in sys.modules:
        sys.modules["jax"].config.update("jax_enable_x64", False)
