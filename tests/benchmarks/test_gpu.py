"""Measurements on a GPU, as far as they can be checked without one: with contenders on the CPU instead."""

import json
import math
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import contenders, report, workloads
from benchmarks.gpu import check, pool, profiles, session
from benchmarks.gpu import report as gpu_report
from benchmarks.gpu.by_hand import NAMES
from benchmarks.gpu.contenders import (
    BY_LIBRARIES,
    CEILINGS,
    COPY,
    EAGER,
    FROM_TORCH,
    GPU_CONTENDERS,
    JIT,
    KERNELS,
    TORCH_COMPILE,
    cuda_tensors,
    cupy_arrays,
)
from benchmarks.gpu.raw_kernels import source
from benchmarks.gpu.workloads import GPU_WORKLOADS
from benchmarks.settings import Settings
from benchmarks.workloads.kernels import BFLOAT16
from benchmarks.workloads.workload import is_float, tensor
from tests.benchmarks import fakes

QUICK = Settings(processes=1, rounds=3, round_s=0.005, warm_up_s=0.0, settle_s=0.0, threads=1, timeout_s=300.0)
MODULE = fakes.__name__


def plain(workload):
    return workload.reference()


def measured(*names, workload="tiny_call", seconds=60.0):
    found = replace(workloads.find(workload), bytes=3 * 8 * 4)
    names = [f"{MODULE}:{name}" for name in names]
    return session.measure(found, names, QUICK, time.monotonic() + seconds, lambda _: None, plain)


def test_workers_find_everything_by_name():
    assert all(contenders.find(name).name == name for name in GPU_CONTENDERS)
    assert all(workloads.find(name).name == name for name in GPU_WORKLOADS)
    assert not GPU_WORKLOADS.keys() & workloads.WORKLOADS.keys() and {*NAMES} <= GPU_WORKLOADS.keys()


@pytest.mark.parametrize("workload", GPU_WORKLOADS.values(), ids=GPU_WORKLOADS)
def test_somebody_measures_each_workload_alongside_the_baseline(workload):
    present = {name for name, c in GPU_CONTENDERS.items() if c.absent_from(workload) is None}
    assert EAGER.name in present
    own = JIT if workload.numpy else TORCH_COMPILE if workload.part else FROM_TORCH
    assert own.name in present
    assert (COPY.name in present) == (workload.bytes > 0)
    assert not (workload.bytes and workload.flops)


def test_bytes_and_operations_are_those_of_the_shapes():
    chain, product = GPU_WORKLOADS["gpu_chain"], GPU_WORKLOADS["gpu_matmul"]
    (x,) = chain.first()
    assert chain.bytes == 2 * x.nbytes
    ((m, k), (_, n)) = product.first()[0].shape, product.weights()[0].shape
    assert product.flops == 2 * m * k * n
    encoder = GPU_WORKLOADS["gpu_bert_encoder"]
    matrices = sum(math.prod(w.shape) for w in encoder.weights() if w.ndim == 2)
    (_, tokens, width) = encoder.first()[0].shape
    assert encoder.flops == 2 * tokens * matrices + 12 * 4 * tokens * tokens * width


def test_all_start_at_once_and_wrong_results_are_refused():
    document = measured("PRINTING", "WRONG", "ABSENT", "CEILING")
    records = {name.rpartition(":")[2]: record for name, record in document["contenders"].items()}
    assert records["PRINTING"]["median_s"] > 0 and records["CEILING"]["median_s"] > 0
    assert "refused" in records["WRONG"] and "missing" in records["ABSENT"]
    json.dumps(document)


def test_a_process_that_is_silent_does_not_outlast_the_deadline():
    started = time.monotonic()
    document = measured("SLEEPING", seconds=4.0)
    (record,) = document["contenders"].values()
    assert "no answer" in record["failed"] and time.monotonic() - started < 120


def test_without_time_nothing_begins():
    names, found = [*GPU_WORKLOADS], []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "use_environment", lambda: None)
        assert session.run(names, [], QUICK, None, session.LEAST - 1, print, found.append) == names
    assert not found


def record(seconds, error=1e-7):
    return {"median_s": seconds, "q1_s": seconds, "q3_s": seconds * 1.1, "error": error}


@pytest.fixture
def document():
    """A document as a run on a GPU stores it; the numbers are invented."""
    names = {JIT.name: 1e-4, EAGER.name: 2e-4, "gpu jax": 1.5e-4, COPY.name: 0.9e-4}
    ratio = {"median": 1.5, "low": 1.4, "high": 1.6}
    return {
        "workload": "gpu_chain", "description": "a chain", "bytes": 2**28, "flops": 0,
        "revision": "0", "date": "2000-01-01T",
        "gpu": {"gpu": "a GPU", "python": "3.12", "versions": {"torch": "2.11"}},
        "ceilings": {"bytes_per_s": 2**28 / 0.9e-4},
        "contenders": {name: record(s) for name, s in names.items()}
        | {"gpu triton": {"failed": "no\nluck"}, "gpu torch.mm": {"declined": "products do not bound it"}},
        "speedups": {JIT.name: ratio},
        "zenith_over": {name: {JIT.name: ratio} for name in (EAGER.name, "gpu jax", COPY.name)},
    }  # fmt: skip


def test_the_best_peer_is_found_and_shares_are_of_the_copy(document, tmp_path):
    ((workload, own, best, over, share),) = gpu_report.best_peers([document]).rows
    assert (workload, own, best) == ("chain", "zenith jit", "jax") and over == share == "1.50 (1.40-1.60)"
    rows = {row[1]: row for row in gpu_report.times([document]).rows}
    assert rows["zenith jit"][6].endswith("(90%)") and rows["triton"][2] == "failed" and "torch.mm" not in rows
    text = gpu_report.document([document], {"failed": "no GPU"})
    assert "triton, failed: no" in text and "W2 failed: no GPU" in text and "a GPU; Python 3.12; torch 2.11" in text
    report.table(gpu_report.times([document]))
    gpu_report.plot([document], tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<?xml")


def test_failures_of_zenith_are_reported(document):
    assert session.failures(document) == []
    document["contenders"][JIT.name] = {"refused": "error 1"}
    assert session.failures(document) == ["gpu_chain, gpu zenith jit: refused: error 1"]
    assert set(session.peers(document)) == {EAGER.name, "gpu jax"} and not {*CEILINGS} & set(session.peers(document))


def test_own_kernels_have_a_share_of_the_libraries_speed(document):
    document["contenders"] |= {KERNELS.name: record(4e-4), BY_LIBRARIES.name: record(3e-4)}
    ((workload, *_, share),) = gpu_report.beside_libraries([document]).rows
    assert (workload, share) == ("chain", "75%") and session.fastest_peer(document) == "gpu jax"
    assert "beside cuBLASLt and cuDNN" in gpu_report.document([document], None)


def test_pauses_at_new_sizes_are_reported(document):
    """W12: the longest call with a size that is new, next to the same call later."""
    document["sizes"] = [100, 200, 300]
    document["contenders"][JIT.name] |= {
        "calls": {"first_s": [0.2, 0.2, 0.3], "median_s": [0.1, 0.2, 0.3]}, "facts": {"compilations": 1},
    }  # fmt: skip
    assert "gpu zenith jit | 1 | 100 ms | 1.0000" in gpu_report.document([document], None)


def test_what_falls_short_is_profiled(document, tmp_path):
    reported, make = [], lambda contender, workload: f"{contender} in {workload}"
    assert profiles.write([document], tmp_path, reported.append, make) == [], "the fastest peer is slower"
    document["zenith_over"]["gpu jax"][JIT.name]["median"] = 0.9
    (path,) = profiles.write([document], tmp_path / "profiles", reported.append, make)
    assert path.name == "gpu_chain_jit.txt" and path.read_text() == "gpu zenith jit in gpu_chain"
    assert reported == ["gpu_chain, gpu zenith jit: slower than gpu jax"]


@pytest.mark.parametrize("workload", ["tiny_call", pytest.param("train_mlp", marks=pytest.mark.thorough)])
def test_a_profile_names_the_launches(workload, monkeypatch):
    monkeypatch.setattr("zenith.api.profile.peak", lambda device: 1e11)  # measuring the machine takes longest
    monkeypatch.setattr("zenith.api.profile.bandwidth", lambda moved, device: 1e10)
    assert "GB/s" in profiles.profile("zenith jit", workload)


def test_bfloat16_comes_and_goes_by_its_bits(monkeypatch):
    torch = pytest.importorskip("torch")
    product = GPU_WORKLOADS["gpu_matmul_bf16"]
    x = np.arange(6, dtype=np.float32).reshape(2, 3).astype(BFLOAT16)
    assert tensor(x).dtype is torch.bfloat16 and tensor(x).tolist() == x.tolist() and is_float(x)
    assert np.array_equal(EAGER.fetch(tensor(x)), x.astype(np.float32))
    small = replace(product, batches=lambda: [(x,)], weights=lambda: (x.T.copy(),))
    (found,) = small.reference()
    assert found.dtype == np.float64 and np.array_equal(found, x.astype(float) @ x.T.astype(float))
    assert np.array_equal(EAGER.fetch(product.torch(small.weights())(tensor(x))), found)


def test_without_measurements_nothing_is_claimed(tmp_path):
    assert session.load(tmp_path) == [] and gpu_report.NOTHING in gpu_report.document([], None)


def test_what_is_missing_is_reported_first():
    found = check.describe()
    found["versions"] = found["versions"] | {"optree": None}
    (line,) = check.lacks(found)
    assert "not installed: optree" in line and "GPU_WHEELS" in line


def test_counters_of_the_pool_are_those_of_the_stats(monkeypatch):
    done = SimpleNamespace(returncode=1, stderr="Traceback\nDeviceError: no GPU", stdout="")
    monkeypatch.setattr(pool.subprocess, "run", lambda *_, **__: done)
    assert pool.in_a_process() == {"failed": "DeviceError: no GPU"}


def test_batches_over_one_memory_share_their_copy(monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.Tensor, "cuda", torch.Tensor.clone)
    whole = np.arange(12, dtype=np.float32)
    (one,), (other,), (alone,) = (
        cuda_tensors((a,)) for a in (whole[:6].reshape(2, 3), whole[:4].reshape(2, 2), whole[3:])
    )
    assert one.data_ptr() == other.data_ptr() != alone.data_ptr()
    assert one.tolist() == [[0, 1, 2], [3, 4, 5]] and alone.tolist() == whole[3:].tolist()
    assert cupy_arrays(()) == ()


def test_kernels_by_hand_compile():
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        _, program = nvrtc.nvrtcCreateProgram(source().encode(), b"raw.cu", 0, [], [])
    except RuntimeError as error:
        pytest.skip(f"NVRTC is not installed: {error}")
    options = [b"--gpu-architecture=sm_90"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    _, length = nvrtc.nvrtcGetProgramLogSize(program)
    log = bytes(length + 1)  # Python has one object for each single byte, which must not be written to
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    assert all(f"void {name}(" in source() or f"ELEMENTWISE({name}," in source() for name in NAMES)
