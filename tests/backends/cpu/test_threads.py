"""The thread team: same chunks whoever runs them, many callers, forks, sleep, and a clean end."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba import cfunc, njit

import zenith
from tests.sampling import leave
from zenith.backends.cpu import threads
from zenith.backends.cpu.native import native
from zenith.backends.cpu.native_intrinsics import (
    call_kernel,
    compare_exchange,
    fetch_add,
    load_acquire,
    nanoseconds,
    pause,
)

KERNEL = "void(int64, int64, CPointer(int64))"
FORK = multiprocessing.get_context("fork")
ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 180.0  # seconds until a test that hangs fails
run_launch = native().run_launch


@cfunc(KERNEL)
def count_runs(begin, end, args):
    """args[2 + i]: how often item i has run; 1000 more where that did not begin with a chunk of args[1] items."""
    for i in range(begin, end):
        args[2 + i] += 1
    if begin % args[1] != 0:
        args[2 + begin] += 1000


@cfunc(KERNEL)
def spend(begin, end, args):
    """Each item takes args[1] nanoseconds."""
    for i in range(begin, end):
        until = nanoseconds() + args[1]
        while nanoseconds() < until:
            pause()
        args[2 + i] += 1


@cfunc(KERNEL)
def mix(begin, end, args):
    """args[2 + i]: args[1] rounds of integer arithmetic on i, so that the time spent is work of a core."""
    for i in range(begin, end):
        x = np.uint64(i)
        for _ in range(args[1]):
            x = (x ^ (x >> np.uint64(29))) * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        args[2 + i] = np.int64(x)


@cfunc(KERNEL)
def launch_again(begin, end, args):
    """Item i launches the kernel at address args[1] over args[3 + i * 16 ...] with the team at args[2]."""
    for i in range(begin, end):
        run_launch(args[2], args[1], 14, 3, args[3 + i])


@cfunc(KERNEL)
def record_generation(begin, end, args):
    """args[2 + i]: the generation with which chunks are claimed while item i runs; args[1] is the team."""
    for i in range(begin, end):
        args[2 + i] = load_acquire(args[1], threads.CLAIM) >> 32


@cfunc("void(int64, int64, int64)")
def meet(begin, end, words):
    """Every chunk waits for all others, for args[0] nanoseconds at most; args[1] counts arrivals, args[2] meetings."""
    fetch_add(words, 8, 1)
    until = nanoseconds() + load_acquire(words, 0)
    while load_acquire(words, 8) < 2 and nanoseconds() < until:
        pause()
    if load_acquire(words, 8) == 2:
        fetch_add(words, 16, 1)


@njit("void(int64, int64, int64, int64, int64, int64)", nogil=True)
def driver(times, team, kernel, total, grain, args):
    for _ in range(times):
        run_launch(team, kernel, total, grain, args)


def arguments(items: int, parameter: int = 0) -> np.ndarray:
    args = np.zeros(items + 2, np.int64)
    args[1] = parameter
    return args


@pytest.fixture(autouse=True)
def fresh_team_of_two():
    threads.set_num_threads(1)
    threads.set_num_threads(2)
    assert not threads.team().started
    yield
    threads.set_num_threads(1)
    threads.set_num_threads(2)


def start_workers() -> threads.Team:
    team, args = threads.team(), arguments(8, 100_000)
    team.launch(spend.address, 8, 1, args.ctypes.data)
    assert team.started
    return team


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(("total", "grain"), [(0, 1), (-3, 1), (1, 1), (7, 3), (64, 1), (1000, 7), (5, 100), (6, -2)])
def test_whole_chunks_run_once(size, total, grain):
    threads.set_num_threads(size)
    args = arguments(max(total, 0), max(grain, 1))
    threads.team().launch(count_runs.address, total, grain, args.ctypes.data)
    assert (args[2:] == 1).all()


@pytest.mark.parametrize("size", [2, 8])
def test_every_item_runs_once_in_a_storm_of_small_jobs(size):
    """More workers than cores, so that many come late: none may touch a newer job."""
    threads.set_num_threads(size)
    team = start_workers()
    args = arguments(1000, 1)
    for total in [*range(2, 41), 1000]:
        args[2:] = 0
        driver(400, team.address, count_runs.address, total, 1, args.ctypes.data)
        assert (args[2 : 2 + total] == 400).all()
        assert not args[2 + total :].any()


def test_every_job_has_its_own_generation():
    """Or else a worker that comes late could claim a chunk of a newer job with the parameters of an older one."""
    team = start_workers()
    seen = []
    for _ in range(20):
        args = arguments(4, team.address)
        team.launch(record_generation.address, 4, 1, args.ctypes.data)
        assert len(set(args[2:].tolist())) == 1
        seen.append(int(args[2]))
    assert len(set(seen)) == len(seen)


def test_a_kernel_may_launch():
    """The job slot is taken, so the inner launches run serially where they are."""
    team = start_workers()
    inner = [arguments(14, 3) for _ in range(6)]
    args = np.array([0, count_runs.address, team.address, *(a.ctypes.data for a in inner)], np.int64)
    team.launch(launch_again.address, 6, 1, args.ctypes.data)
    for a in inner:
        assert (a[2:] == 1).all()


def test_a_sleeping_team_is_woken_for_work_known_to_be_long():
    """The two chunks meet, so two threads ran at once. The first launch teaches how long the kernel takes."""
    team = start_workers()
    met = []
    for patience in (1_000_000, int(PATIENCE * 1e9)):
        time.sleep(0.02)
        words = np.array([patience, 0, 0], np.int64)
        team.launch(meet.address, 2, 1, words.ctypes.data)
        met.append(int(words[2]))
    assert met[1] == 2


def test_small_launches_start_the_team_only_when_they_come_in_quick_succession():
    team, args = threads.team(), arguments(4, 1_000)
    lone = []
    for _ in range(5):  # on a busy machine a chunk may be interrupted, and then it looks long
        threads.set_num_threads(1)
        threads.set_num_threads(2)
        team.launch(spend.address, 4, 1, args.ctypes.data)
        lone.append(team.started)
    assert not all(lone)
    driver(1000, team.address, spend.address, 4, 1, args.ctypes.data)
    assert team.started


def test_one_thread_has_no_workers():
    threads.set_num_threads(1)
    team, args = threads.team(), arguments(8, 100_000)
    before = threading.active_count()
    team.launch(spend.address, 8, 1, args.ctypes.data)
    assert (team.size, team.started, threading.active_count()) == (1, False, before)


def test_idle_workers_use_no_time():
    start_workers()
    time.sleep(0.05)
    begun = time.process_time()
    time.sleep(0.3)
    assert time.process_time() - begun < 0.03


def mix_repeatedly(args: np.ndarray) -> None:
    for _ in range(30):
        threads.team().launch(mix.address, len(args) - 2, 4, args.ctypes.data)


@pytest.mark.timing
def test_eight_python_threads_at_once():
    """Equal results, and together at most 1.3 times as long as one after the other."""
    start_workers()
    results = [arguments(64, 2_000) for _ in range(8)]
    ratios = []
    for _ in range(10):
        begun = time.perf_counter()
        for args in results:
            mix_repeatedly(args)
        in_a_row = time.perf_counter() - begun
        callers = [threading.Thread(target=mix_repeatedly, args=(args,)) for args in results]
        begun = time.perf_counter()
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
        ratios.append((time.perf_counter() - begun) / in_a_row)
    assert min(ratios) <= 1.3, ratios
    for args in results[1:]:
        np.testing.assert_array_equal(args, results[0])


@pytest.mark.timing
def test_interleaved_with_torch():
    """A launch and a product by PyTorch's own threads in turn: at most 1.5 times the sum of each alone."""
    torch = pytest.importorskip("torch")
    args, matrix = arguments(64, 10_000), torch.ones(512, 512)
    team = start_workers()

    def launches() -> None:
        team.launch(mix.address, 64, 4, args.ctypes.data)

    def products() -> None:
        torch.mm(matrix, matrix)

    def seconds(*calls: Callable[[], None]) -> float:
        begun = time.perf_counter()
        for _ in range(20):
            for call in calls:
                call()
        return time.perf_counter() - begun

    ratios = [seconds(launches, products) / (seconds(launches) + seconds(products)) for _ in range(12)]
    assert min(ratios) <= 1.5, ratios


def check_child(address: int) -> None:
    """In a forked child: code linked to the parent's address works, and the child starts its own workers."""
    team = threads.team()
    assert team.address == address
    assert not team.started
    args = arguments(50, 3)
    driver(10, address, count_runs.address, 50, 3, args.ctypes.data)
    assert (args[2:] == 10).all()
    start_workers()


def run_in_child(address: int) -> None:
    child = FORK.Process(target=check_child, args=(address,))
    child.start()
    child.join(PATIENCE)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_forked_children_start_their_own_team():
    team = start_workers()
    run_in_child(team.address)
    assert team.started
    args = arguments(50, 3)
    team.launch(count_runs.address, 50, 3, args.ctypes.data)
    assert (args[2:] == 1).all()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_in_the_middle_of_another_threads_launch():
    """The child finds the job slot taken by a thread that does not exist there."""
    team, args = start_workers(), arguments(20, 20_000_000)
    other = threading.Thread(target=team.launch, args=(spend.address, 20, 1, args.ctypes.data))
    other.start()
    time.sleep(0.02)
    assert other.is_alive()
    run_in_child(team.address)
    other.join(PATIENCE)
    assert (args[2:] == 1).all()


class Launching:
    """A data set each of whose items is computed by a launch."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> np.ndarray:
        args = arguments(32, 10_000)
        threads.team().launch(spend.address, 32, 4, args.ctypes.data)
        return args[2:] * index


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_data_loader_workers():
    data = pytest.importorskip("torch.utils.data")
    start_workers()
    loader = data.DataLoader(Launching(), batch_size=2, num_workers=2, multiprocessing_context=FORK, timeout=PATIENCE)
    batches = [batch.numpy() for batch in loader]
    np.testing.assert_array_equal(np.concatenate(batches), np.arange(6)[:, None] * np.ones((1, 32), np.int64))


ENDINGS = {
    "workers awake": "",
    "workers asleep": "import time; time.sleep(0.05)",
    "resized": "threads.set_num_threads(3); launch()",
    "a daemon thread that launches on and on": """
import threading, time
def forever():
    while True:
        launch()
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.05)
""",
}


@pytest.mark.parametrize("ending", leave([*ENDINGS][1::2], ENDINGS))
def test_the_process_ends_cleanly(ending):
    """With status 0, no complaint, and no worker left (exit handlers run last in, first out)."""
    script = f"""
import atexit, threading
atexit.register(lambda: print([t.name for t in threading.enumerate() if t.name.startswith("zenith")]))
from tests.backends.cpu.test_threads import arguments, spend, threads
threads.set_num_threads(2)
args = arguments(64, 10_000)
def launch():
    threads.team().launch(spend.address, 64, 2, args.ctypes.data)
launch()
assert threads.team().started
{ENDINGS[ending]}
"""
    run = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, timeout=PATIENCE, capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout, run.stderr) == (0, "[]\n", "")


@pytest.mark.parametrize("count", [0, -1, threads.MAX_THREADS + 1, 1.5, "two", None])
def test_bad_numbers_of_threads(count):
    with pytest.raises(ValueError, match="which is no number of threads"):
        threads.set_num_threads(count)
    assert threads.team().size == 2


@pytest.mark.parametrize("setting", ["0", "many", "2.5"])
def test_bad_environment(monkeypatch, setting):
    monkeypatch.setenv("ZENITH_NUM_THREADS", setting)
    with pytest.raises(threads.ThreadCountError, match=f"ZENITH_NUM_THREADS is '{setting}'"):
        threads.default_num_threads()


def test_environment(monkeypatch):
    monkeypatch.setenv("ZENITH_NUM_THREADS", "3")
    assert threads.default_num_threads() == 3
    monkeypatch.delenv("ZENITH_NUM_THREADS")
    assert threads.default_num_threads() >= 1


@njit("int64(int64, int64)", nogil=True)
def increment(address, times):
    """Add 1 by a compare-and-swap loop and 1 by fetch_add, ``times`` times; return the swaps that failed."""
    failures = 0
    for _ in range(times):
        seen = load_acquire(address, 0)
        while compare_exchange(address, 0, seen, seen + 1) == 0:
            failures += 1
            seen = load_acquire(address, 0)
        fetch_add(address, 8, 1)
    return failures


def test_atomic_updates_are_not_lost():
    words = np.zeros(2, np.int64)
    workers = [threading.Thread(target=increment, args=(words.ctypes.data, 100_000)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert words.tolist() == [300_000, 300_000]


def test_call_kernel_and_clock():
    @njit("int64(int64, int64)")
    def timed(kernel, args):
        begun = nanoseconds()
        call_kernel(kernel, 0, 3, args)
        return nanoseconds() - begun

    args = arguments(3, 1_000_000)
    assert 3_000_000 <= timed(spend.address, args.ctypes.data) < PATIENCE * 1e9
    assert args[2:].tolist() == [1, 1, 1]


def _affinities_in_child(answers) -> None:
    """The cores of the workers of a child that may use one core only, since after it was forked."""
    core = min(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    team = start_workers()
    answers.put([os.sched_getaffinity(worker.native_id) == {core} for worker in team._workers])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this platform does not bind threads to cores")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_child_keep_to_the_cores_that_it_was_given() -> None:
    start_workers()
    answers = FORK.SimpleQueue()
    child = FORK.Process(target=_affinities_in_child, args=(answers,))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    assert answers.get() == [True]


def test_it_is_public():
    assert zenith.set_num_threads is threads.set_num_threads
