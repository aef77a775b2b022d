"""``zenith.verify``: errors against the same program in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zenith
from zenith.accuracy import AccuracyReport
from zenith.errors import ArgumentError, UnsupportedError, ValueTypeError

GENERATOR = np.random.default_rng(0)
W = GENERATOR.standard_normal((40, 30)).astype(np.float32)
BATCHES = [GENERATOR.standard_normal((7, 40)).astype(np.float32) for _ in range(3)]


def layer(x: Any) -> Any:
    return np.tanh(x @ W)


def test_errors_are_those_that_numpy_finds() -> None:
    rounded = zenith.jit(layer, precision="bf16")
    report = zenith.verify(rounded, BATCHES)
    results = np.concatenate([rounded(x) for x in BATCHES]).astype(np.float64)
    exact = np.concatenate([np.tanh(x.astype(np.float64) @ W.astype(np.float64)) for x in BATCHES])
    (output,) = report.outputs
    lost = abs(results - exact)
    assert output.maximum == pytest.approx(lost.max())
    assert output.rms == pytest.approx(np.sqrt(np.mean(lost**2)))
    assert output.relative == report.relative == pytest.approx(np.linalg.norm(lost) / np.linalg.norm(exact))
    wanted = np.sum(results * exact) / np.linalg.norm(results) / np.linalg.norm(exact)
    assert output.cosine == pytest.approx(wanted)
    assert report.batches == 3 and report.json()["function"] == "layer"
    assert "0: float32[7, 30]" in str(report)


def test_precisions_in_order() -> None:
    functions = [
        zenith.jit(layer),
        zenith.jit(layer, precision="bf16"),
        zenith.quantize(layer, BATCHES, scheme="dynamic"),
    ]
    reports = [zenith.verify(function, BATCHES) for function in functions]
    assert reports[0].relative < 1e-6 < reports[1].relative < reports[2].relative < 0.05
    wide = zenith.jit(layer)
    assert zenith.verify(wide, [BATCHES[0].astype(np.float64)]).relative < 1e-14


def test_structures_loops_branches_and_integers() -> None:
    @zenith.jit
    def program(x: Any, n: int) -> Any:
        for _ in range(n):
            x = np.sin(x) + 1 if x.sum() > 0 else x - 1
        return {"values": x, "count": (x > 1).sum(), "nothing": x[:0]}

    report = zenith.verify(program, [(BATCHES[0], 4)])
    assert [output.relative < 1e-6 for output in report.outputs] == [True] * 3
    assert report.outputs[0].maximum == 0


def test_special_numbers() -> None:
    log = zenith.jit(lambda x: np.log(x))
    assert zenith.verify(log, [np.array([-1, 0, 1, np.inf], np.float32)]).outputs[0].maximum == 0
    overflows = zenith.jit(lambda x: np.exp(x))
    assert zenith.verify(overflows, [np.array([100, 1], np.float32)]).outputs[0].maximum == np.inf


def test_modules_and_their_quantised_form() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(40, 64), torch.nn.GELU(), torch.nn.Linear(64, 8)).eval()
    batches = [torch.randn(16, 40) for _ in range(4)]
    with torch.no_grad():
        fast = zenith.from_torch(module, (batches[0],))
        assert zenith.verify(fast, batches).relative < 1e-6
        small = zenith.quantize(fast, batches, scheme="dynamic")
        assert 1e-4 < zenith.verify(small, batches).relative < 0.03


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: zenith.verify(layer, BATCHES), ValueTypeError, "not a function"),
        (lambda: zenith.verify(zenith.jit(layer), []), ArgumentError, "inputs has no batch"),
        (lambda: zenith.verify(zenith.jit(lambda x: x[x > 0]), BATCHES), UnsupportedError, "sizes depend"),
        (lambda: zenith.verify(zenith.jit(_writes), [BATCHES[0].copy()]), UnsupportedError, "writes into"),
        (lambda: zenith.verify(zenith.jit(_prints), BATCHES), UnsupportedError, "prints, calls back"),
    ],
)
def test_what_is_refused(make: Any, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        make()


def _writes(x: Any) -> Any:
    x[0] = 1
    return x.sum()


def _prints(x: Any) -> Any:
    zenith.debug.print("{}", x)
    return x


def test_it_is_said_which_report_it_is() -> None:
    assert isinstance(zenith.verify(zenith.jit(layer), BATCHES), AccuracyReport)


def test_a_method_and_what_has_no_counterpart() -> None:
    class Model:
        @zenith.jit
        def apply(self, x: Any) -> Any:
            return x @ W

    assert zenith.verify(Model().apply, BATCHES).relative < 1e-6
    bits = zenith.jit(lambda x: x.view(np.int32) + 1)
    with pytest.raises(UnsupportedError, match="looks at the bits of numbers"):
        zenith.verify(bits, BATCHES)
    outside = zenith.jit(lambda x: zenith.pure_callback(np.tanh, x, x))
    with pytest.raises(UnsupportedError, match="calls"):
        zenith.verify(outside, BATCHES)
