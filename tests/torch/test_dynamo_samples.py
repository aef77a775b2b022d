"""PyTorch's own samples of its operators through ``torch.compile``: results and gradients are eager's.

`make test` has a few of all operators; `make fuzz` has the rest, in shards. Three lists say what is not computed by
Zenith alone. Each is exact: an operator that leaves its list is an error, too, so the lists get shorter only knowingly.
"""

import logging

import pytest
import torch

from tests.sampling import leave
from tests.torch.compiled_samples import by_verdict, outcome, samples
from tests.torch.test_samples import name_of, operators

SHARDS = 32
EVERY = 30  # of the operators, one in so many is in `make test`

pytestmark = pytest.mark.filterwarnings("ignore")  # PyTorch's own, about its samples

# Why results are not eager's, or there are none.
FAILING: dict[str, str] = {}
# Operators with steps that PyTorch computes, in some sample; the reports of compiled graphs name these steps.
_BY_STEPS = """
    _segment_reduce.lengths _segment_reduce.offsets chalf geqrf hash_tensor histogram histogramdd linalg.cholesky_ex
    linalg.eig linalg.eigvals linalg.householder_product linalg.inv_ex linalg.ldl_factor linalg.ldl_factor_ex
    linalg.ldl_solve linalg.lu linalg.lu_factor linalg.lu_factor_ex linalg.lu_solve linalg.slogdet linalg.solve
    linalg.solve_ex linalg.tensorsolve logdet lu lu_solve lu_unpack matrix_exp mode nn.functional.fractional_max_pool2d
    nn.functional.fractional_max_pool3d nn.functional.linear_cross_entropy.chunked
    nn.functional.linear_cross_entropy.chunked_none ormqr special.airy_ai special.bessel_j0 special.bessel_j1
    special.bessel_y0 special.bessel_y1 special.modified_bessel_k0 special.modified_bessel_k1
    special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0 special.zeta
"""
BY_STEPS = set(_BY_STEPS.split())
# Operators without a sample that reaches a backend: they compute nothing, or their results' sizes depend on values.
_UNREACHED = """
    H T allclose argwhere broadcast_shapes combinations conj conj_physical contiguous corrcoef cov equal float item
    linalg.lstsq linalg.lstsq.grad_oriented mH mT masked_select nn.functional.alpha_dropout nn.functional.ctc_loss
    nn.functional.feature_alpha_dropout.without_train nn.functional.gaussian_nll_loss nonzero positive real resize_
    resize_as_ resolve_conj resolve_neg sparse.mm.reduce sparse.sampled_addmm to_sparse unique unique_consecutive
"""
UNREACHED = set(_UNREACHED.split())
# Operators with steps that PyTorch computes for other elements than floats of 32 bits, or when numbers that are no
# sizes (where a range starts, the width of a border, the stride of a convolution) are symbols, too.
_OF_ANY_NUMBERS = """
    as_strided_copy constant_pad_nd fft.fft fft.fft2 fft.fftn fft.ifft fft.ifft2 fft.ifftn fft.ihfft fft.rfft
    nn.functional.conv1d nn.functional.conv2d nn.functional.conv_transpose1d nn.functional.conv_transpose2d
    nn.functional.conv_transpose3d nn.functional.pad.constant
"""
_OF_INTEGERS = """
    nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d nn.functional.local_response_norm
"""
MORE_BY_STEPS = {"any": set(_OF_ANY_NUMBERS.split()), torch.int64: set(_OF_INTEGERS.split())}
FAILING_WITH_ANY_SIZES = {
    "max_pool2d_with_indices_backward": "PyTorch's own shape function refuses sizes that it does not know"
}


@pytest.fixture(autouse=True)
def _quiet():
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    yield
    torch._dynamo.reset()


def check(op, dtype, most, **options):
    """The verdicts of some samples, none of them wrong or raised but where the list says so."""
    found = []
    for sample in samples(op, dtype, most, dtype.is_floating_point):
        result = outcome(op, sample, dtype, **options)
        if result is not None:
            expected = name_of(op) in FAILING
            assert expected or result.verdict not in ("raised", "wrong"), f"{name_of(op)}: {result}"
            found.append(result.verdict)
    return found


@pytest.mark.parametrize("first", leave((22,), (7, 22)))
def test_some(first):
    for op in operators()[first :: 2 * EVERY]:
        if torch.float32 in op.supported_dtypes("cpu"):
            check(op, torch.float32, 1)


def test_kernels():
    """With kernels in place of the interpreter."""
    for op in operators()[3::150]:
        check(op, torch.float32, 1, kind=None)


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_all(shard):
    """The lists are exact for float32, forward and backward."""
    verdicts = {}
    for op in operators()[shard::SHARDS]:
        if torch.float32 in op.supported_dtypes("cpu"):
            verdicts[name_of(op)] = set(check(op, torch.float32, 3))
    listed = (BY_STEPS, FAILING, UNREACHED)
    assert by_verdict(verdicts) == tuple({name for name in names if name in verdicts} for names in listed)


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_other_types(dtype, shard):
    """Steps are those of float32, and those on the list."""
    tried, with_steps = set(), set()
    for op in operators()[shard::SHARDS]:
        if dtype in op.supported_dtypes("cpu"):
            tried.add(name_of(op))
            with_steps |= {name_of(op) for verdict in check(op, dtype, 1) if verdict == "steps"}
    assert with_steps - BY_STEPS == tried & MORE_BY_STEPS.get(dtype, set())


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_any_sizes(shard):
    tried, with_steps = set(), set()
    for op in operators()[shard::SHARDS]:
        name = name_of(op)
        if torch.float32 in op.supported_dtypes("cpu") and name not in FAILING_WITH_ANY_SIZES:
            tried.add(name)
            with_steps |= {name for verdict in check(op, torch.float32, 1, dynamic=True) if verdict == "steps"}
    assert with_steps - BY_STEPS == tried & MORE_BY_STEPS["any"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", FAILING_WITH_ANY_SIZES)
def test_failing_with_any_sizes(name):
    (op,) = (op for op in operators() if name_of(op) == name)
    (sample,) = samples(op, torch.float32, 1, True)
    assert outcome(op, sample, torch.float32, dynamic=True).verdict == "raised"


@pytest.mark.thorough
@pytest.mark.parametrize("shard", range(SHARDS))
def test_all_kernels(shard):
    for op in operators()[shard::SHARDS]:
        if torch.float32 in op.supported_dtypes("cpu"):
            check(op, torch.float32, 1, kind=None)


def test_shares():
    """At least nine operators of ten that reach Zenith are computed by it alone, and two of a hundred fail at most."""
    reached = [name_of(op) for op in operators() if torch.float32 in op.supported_dtypes("cpu")]
    reached = [name for name in reached if name not in UNREACHED]
    assert len((BY_STEPS | set(FAILING)) & set(reached)) <= 0.1 * len(reached)
    assert len(FAILING) <= 0.02 * len(reached)
