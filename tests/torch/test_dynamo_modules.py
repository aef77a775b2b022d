"""PyTorch's own samples of its modules through ``torch.compile``: results, gradients and buffers are eager's.

`make test` has one sample of some modules; `make fuzz` has many samples of all, in both modes. The lists are exact: a
module that leaves its list is an error, too.
"""

import logging

import pytest
import torch

from tests.torch.compiled_modules import modules, outcome, samples
from tests.torch.compiled_samples import by_verdict

SHARDS = 16
MOST = 20  # samples of a module in a mode: of most modules all
EVERY = 6  # of the modules, one in so many is in `make test`

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about its samples

# Why results are not eager's, or there are none.
FAILING = {
    "nn.MultiLabelMarginLoss": "PyTorch's decomposition gives a single row, unreduced, as a row of one number",
}
# Modules with operators that PyTorch computes as steps, in some sample.
BY_STEPS = {"nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d", "nn.LinearCrossEntropyLoss"}
# Modules without a sample that reaches a backend: TorchDynamo calls them as they are.
UNREACHED = {"nn.CTCLoss", "nn.GaussianNLLLoss", "nn.GRU", "nn.LSTM", "nn.RNN"}


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    yield
    torch._dynamo.reset()


def verdicts(info, dtype, training, most, **options):
    """The verdicts of some samples, spread over all, none of them wrong or raised but where the list says so."""
    given = samples(info, dtype, training)
    found = []
    for sample in given[:: max(1, len(given) // most)][:most]:
        result = outcome(info, sample, dtype, training, **options)
        if result is not None:
            expected = info.name in FAILING
            assert expected or result.verdict not in ("raised", "wrong"), f"{info.name} {sample.desc}: {result}"
            found.append(result.verdict)
    return found


@pytest.mark.parametrize("training", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_some(training):
    for info in modules()[2 + training :: EVERY]:
        verdicts(info, torch.float32, training, 1)


def test_kernels():
    """With kernels in place of the interpreter."""
    for info in modules()[9::40]:
        verdicts(info, torch.float32, True, 1, kind=None)


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_all(shard):
    """The lists are exact for float32."""
    found = {}
    for info in modules()[shard::SHARDS]:
        modes = (True, False) if info.train_and_eval_differ else (True,)
        found[info.name] = {v for training in modes for v in verdicts(info, torch.float32, training, MOST)}
    listed = (BY_STEPS, FAILING, UNREACHED)
    assert by_verdict(found) == tuple({name for name in names if name in found} for names in listed)


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_double(shard):
    for info in modules()[shard::SHARDS]:
        verdicts(info, torch.float64, True, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_sizes(shard):
    for info in modules()[shard::SHARDS]:
        verdicts(info, torch.float32, True, 1, dynamic=True)


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_all_kernels(shard):
    for info in modules()[shard::SHARDS]:
        verdicts(info, torch.float32, True, 1, kind=None)
