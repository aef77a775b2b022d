"""PyTorch's own samples of its operators: what from_torch gives is what PyTorch gives, or a reason why not.

The samples come with torch (``op_db``). They take minutes, so `make test` leaves them out: tests/torch/chapters.py has
the same operators in fewer calls.
"""

import logging

import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import zenith
from zenith.errors import ZenithError

SHARDS = 32
VALUES = (bool, int, float, str, type(None), torch.Tensor)

# Operators with a sample that is refused, by Zenith or by torch.export, and no others; a result, where there is one,
# must be right.
_REFUSING = """
    _batch_norm_with_update _native_batch_norm_legit _segment_reduce.lengths _segment_reduce.offsets allclose argwhere
    bincount cauchy chalf combinations corrcoef cov equal exponential geometric geqrf hash_tensor histogram histogramdd
    item linalg.cholesky_ex linalg.eig linalg.eigvals linalg.householder_product linalg.inv_ex linalg.ldl_factor
    linalg.ldl_factor_ex linalg.ldl_solve linalg.lstsq linalg.lstsq.grad_oriented linalg.lu linalg.lu_factor
    linalg.lu_factor_ex linalg.lu_solve linalg.norm linalg.solve_ex log_normal lu lu_solve lu_unpack masked_select
    matrix_exp mode narrow native_batch_norm nn.functional.avg_pool1d nn.functional.avg_pool2d nn.functional.avg_pool3d
    nn.functional.batch_norm nn.functional.embedding
    nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
    nn.functional.instance_norm nn.functional.linear_cross_entropy.chunked
    nn.functional.linear_cross_entropy.chunked_none nn.functional.local_response_norm nn.functional.one_hot nonzero
    normal.in_place ormqr resize_ resize_as_ sparse.mm.reduce sparse.sampled_addmm special.airy_ai special.bessel_j0
    special.bessel_j1 special.bessel_y0 special.bessel_y1 special.modified_bessel_k0 special.modified_bessel_k1
    special.scaled_modified_bessel_k0 special.scaled_modified_bessel_k1 special.spherical_bessel_j0 special.zeta
    tensor_split to_sparse uniform unique unique_consecutive
"""
REFUSING = set(_REFUSING.split())
# PyTorch does not specify these: contents, signs of vectors, which of equal elements comes first.
OPEN = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "linalg.eigh", "svd",
    "linalg.svd", "linalg.qr", "qr", "topk", "kthvalue", "sort", "argsort", "msort", "mode", "median", "nanmedian",
    "svd_lowrank", "pca_lowrank",
}  # fmt: skip
LOOSE = {"polygamma", "special.polygamma"}  # PyTorch's own error is larger than the tolerance of the others


class Call(nn.Module):
    """One call of an operator: tensors and plain values are arguments, everything else belongs to the module."""

    def __init__(self, operator, args, kwargs):
        super().__init__()
        self.operator, self.args, self.kwargs = operator, args, kwargs

    def forward(self, *given):
        args, kwargs = pytree.tree_unflatten(self.filled(given), self.spec)
        return self.operator(*args, **kwargs)

    @property
    def spec(self):
        return pytree.tree_structure((self.args, self.kwargs))

    def filled(self, given):
        rest = iter(given)
        return [next(rest) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]

    @property
    def leaves(self):
        return pytree.tree_leaves((self.args, self.kwargs))


def operators():
    """Every operator with samples, but for those that need a tensor's memory, which copies have not."""
    pytest.importorskip("expecttest")
    from torch.testing._internal.common_methods_invocations import op_db

    return [op for op in op_db if "jiterator" not in op.name and op.variant_test_name != "partial_views"]


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def samples(op, dtype, most):
    """Some samples, spread over all that there are."""
    torch.manual_seed(0)
    found = [sample for sample in op.sample_inputs("cpu", dtype) if not _reads_out_of_bounds(op, sample)]
    return found[:: max(1, len(found) // most)][:most]


def _reads_out_of_bounds(op, sample):
    """Whether PyTorch itself reads a size that a tensor lacks, as a batch norm the second size of a vector."""
    return "batch_norm" in op.name and sample.input.ndim < 2


def check(op, sample, dtype):
    """Whether the sample is refused; else its results are PyTorch's."""
    call = Call(op.op, (sample.input, *sample.args), sample.kwargs)
    given = [leaf for leaf in call.leaves if isinstance(leaf, torch.Tensor)]
    with torch.no_grad():
        torch.manual_seed(42)  # as those that draw do by themselves
        expected = call(*[g.clone() for g in given])
        try:
            fast = zenith.from_torch(call, tuple(given), backend="reference")
            torch.manual_seed(42)
            found = fast(*given)
        except ZenithError:
            return True
    pairs = zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True)
    for f, e in pairs:
        if op.name in OPEN:
            assert (f.shape, f.dtype) == (e.shape, e.dtype)
            continue
        loose = {"rtol": 1e-4, "atol": 1e-4 if op.name in LOOSE else 2e-5} if dtype == torch.float32 else {}
        same = isinstance(e, torch.Tensor) and e.dtype == dtype
        torch.testing.assert_close(f, e, equal_nan=True, check_stride=False, **(loose if same else {}))
    return False


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("shard", range(SHARDS))
def test_samples(shard):
    logging.getLogger("torch").setLevel(logging.CRITICAL)
    for op in operators()[shard::SHARDS]:
        refused = [
            check(op, sample, dtype)
            for dtype, most in ((torch.float32, 3), (torch.int64, 1), (torch.bool, 1))
            if dtype in op.supported_dtypes("cpu")
            for sample in samples(op, dtype, most)
        ]
        assert any(refused) == (name_of(op) in REFUSING), f"{name_of(op)}: refused {sum(refused)} of {len(refused)}"


@pytest.mark.thorough
def test_the_list_names_operators():
    assert set(map(name_of, operators())) >= REFUSING
