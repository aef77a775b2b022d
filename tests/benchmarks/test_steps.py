"""Training steps: every contender's result is that of float64, by the same update rule."""

import numpy as np
import pytest

from benchmarks import stats, worker
from benchmarks.contenders import CONTENDERS
from benchmarks.workloads import WORKLOADS
from benchmarks.workloads.descent import Descent

WEIGHTS = tuple(np.random.default_rng(i).standard_normal((3, 4)) for i in range(2))


@pytest.mark.parametrize(("name", "workload"), [
    *((name, "train_mlp") for name in ("zenith jit", "zenith from_torch", "torch eager", "jax")),
    *((name, "rnn_gradient_100") for name in ("zenith jit", "torch eager", "jax")),
])  # fmt: skip
def test_two_steps_lead_where_float64_does(name, workload, tmp_path):
    contender, workload = CONTENDERS[name], WORKLOADS[workload]
    for library in contender.libraries:
        pytest.importorskip(library)
    running, _ = worker.first_call(contender, workload)
    running.results(str(tmp_path / "results.npz"))
    (expected,) = workload.reference()
    with np.load(tmp_path / "results.npz") as stored:
        assert stats.relative_error(stored["arr_0"], expected) <= workload.bound
    assert not running.save(tmp_path / "step"), "its weights are no part of a program"


@pytest.mark.parametrize("descent", [
    Descent("sgd", rate=0.1, momentum=0.9), Descent("adam", rate=0.1), Descent("adamw", rate=0.1),
], ids=lambda descent: descent.rule)  # fmt: skip
def test_rules_are_those_of_torch(descent):
    torch = pytest.importorskip("torch")
    weights, state = WEIGHTS, descent.start(WEIGHTS, np)
    theirs = [torch.tensor(w, requires_grad=True) for w in WEIGHTS]
    if descent.rule == "sgd":
        optimizer = torch.optim.SGD(theirs, descent.rate, momentum=descent.momentum)
    else:
        rules = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        optimizer = rules[descent.rule](theirs, descent.rate)
    for step in range(5):
        gradient = tuple(np.sin(w + step) for w in weights)
        weights, state = descent.advance(weights, gradient, state, np)
        for w in theirs:
            w.grad = torch.sin(w.detach() + step)
        optimizer.step()
    for ours, w in zip(weights, theirs, strict=True):
        np.testing.assert_allclose(ours, w.detach().numpy(), rtol=1e-12)


def test_one_program_serves_loops_of_all_lengths():
    """What compiling takes cannot depend on a length that is a symbol."""
    for kind in ("rnn_forward", "rnn_gradient"):
        long, short = WORKLOADS[kind], WORKLOADS[f"{kind}_100"]
        running, _ = worker.first_call(CONTENDERS["zenith jit"], short)
        running.call(*long.first())
        assert running.call.cache_info().misses == 1


@pytest.mark.parametrize(
    ("contender", "workload", "reason"),
    [
        ("numpy", "train_mlp", "no gradients"),
        ("inductor freezing", "rnn_gradient", "no gradients"),
        ("onnx runtime", "rnn_forward", "no loops"),
        ("numexpr", "softmax", "more than one elementwise expression"),
    ],
)
def test_who_cannot_says_why(contender, workload, reason):
    assert reason in CONTENDERS[contender].absent_from(WORKLOADS[workload])
    assert CONTENDERS["zenith jit"].absent_from(WORKLOADS[workload]) is None
