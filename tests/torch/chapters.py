"""Functions that use the rules of the ATen table's chapters on indices, matrices, distances and gradients.

Each yields many results; tests/torch/test_aten.py runs them on their arguments.
"""

import torch
from torch.nn import functional as F

X = torch.tensor([[0.5, -1.5, 2.0, 0.0], [3.0, -0.25, 1.0, 7.5], [-2.0, 4.0, 0.125, 1.5]])
N = torch.tensor([[3, -7, 5, 2], [1, 0, -2, 9], [4, 4, 8, -6]])
INDICES = torch.tensor([[0, 2, 1, 0], [2, 2, 0, 1]])
ROWS = torch.tensor([2, 0, 2])
BATCH = torch.arange(24.0).reshape(2, 3, 4) / 10
SQUARE = torch.tensor([[4.0, 1.0, 0.5, -1.0], [1.0, 5.0, 0.25, 0.0], [0.5, 0.25, 3.0, 1.0], [-1.0, 0.0, 1.0, 6.0]])
HOW = ("sum", "prod", "mean", "amax", "amin")
aten = torch.ops.aten


def scatter(x, i, n):
    yield x.scatter(0, i, x), x.scatter(1, i, x[:, :2].repeat(1, 2)), n.scatter(0, i, -1)
    yield x.scatter(0, i[:, :2], 2.5), (x > 0).scatter(0, i, True), x.bfloat16().scatter(0, i, 1)
    yield x.scatter(0, i[:0], x), x[0, 0].scatter(0, i[0, :1] * 0, 9.0), x.scatter(-1, i, x)
    yield x.scatter(0, i, x, reduce="multiply"), x.scatter(0, i, 2.0, reduce="add")
    yield n.scatter(0, i, 3, reduce="multiply")


def scatter_add(x, i, n):
    yield x.scatter_add(0, i, x), x.scatter_add(1, i, x), n.scatter_add(0, i, n)
    yield x.bfloat16().scatter_add(0, i, x.bfloat16()), x.double().scatter_add(0, i, x.double())
    yield n.to(torch.uint8).scatter_add(0, i, n.to(torch.uint8))


def scatter_reduce(x, i, n):
    """Every reduction of every kind of element, with and without the elements of the result's tensor."""
    for t in (x, x > 0, n, x.bfloat16(), x.double()):
        reductions = HOW if t.dtype != torch.bool else ("sum", "prod", "amax", "amin")
        yield [torch.scatter_reduce(t, 0, i, t, how, include_self=own) for how in reductions for own in (True, False)]


def index_put(x, n):
    """Assignments, each into a copy, and the operator itself."""
    a, b, c, d, e, f = (x.clone() for _ in range(6))
    a[1, 2] = 7.0
    b[ROWS, 1] = x[0, :3]
    c[:, ROWS] = x[0, :3]
    d[x > 1] = -1.0
    e[torch.tensor([True, False, True])] = x[0]
    f[..., -1] += 2
    yield a, b, c, d, e, f, aten.index_put(x, (ROWS[:2],), x[:2]), aten.index_put(n, (None, ROWS), n[:, :3])
    yield x.slice_scatter(x[:, 1::2] * 2, -1, 1, None, 2), n.slice_scatter(n[:2] + 1, 0, -3, 9, 2)


def index_put_of_sums(x, n):
    yield aten.index_put(x, (ROWS,), x, accumulate=True), aten.index_put(n, (ROWS, ROWS), n[0, :3], accumulate=True)
    yield aten.index_put(x, (None, ROWS), x[0, 0], accumulate=True)
    yield aten.index_put(x > 0, (ROWS,), x < 0, accumulate=True)


def indices_of_one_axis(x, r, n):
    yield x.index_add(0, r, x), x.index_add(1, r, x[:, :3], alpha=2), n.index_add(0, r, n, alpha=3)
    yield x.bfloat16().index_add(0, r, x.bfloat16()), x.index_copy(0, r[:2], x[:2])
    yield x.index_copy(-1, r[:1], x[:, :1]), x.index_fill(0, r, 3.0), n.index_fill(1, r, 4)
    yield x.index_fill(1, r, x[0, 0]), x[0, 0].index_fill(0, r[1:2], 5.0), n.index_fill(0, r[:0], 1)
    yield (*(aten.index_reduce(x, 0, r, x, how, include_self=own) for how in HOW[1:] for own in (True, False)),)


def flat_indices(x, r):
    yield x.take(r), x.take(torch.tensor([[-1, 0]])), x.put(r, x[0, :3]), x.put(r, x[0, :3], accumulate=True)
    yield x.masked_scatter(x > 0, x + 1), x.masked_scatter(x[0] > 0, x * 2)
    yield (x > 0).masked_scatter(x > 1, x < 0)


def strides(t):
    yield torch.as_strided(t, (2, 5), (3, 2), 1), torch.as_strided(t.contiguous(), (3, 3), (1, 1))
    yield torch.as_strided(t, (), (), 4), aten.as_strided_copy(t, (4,), (0,)), t.unfold(2, 3, 1)
    yield t.unfold(1, 2, 2), t.unfold(0, 2, 1), t[0, 0, 0].unfold(0, 1, 1)
    yield aten.as_strided_scatter(t, t[0, 0, :3], (3,), (4,), 2), t.roll(1, 0), t.roll((1, -5), (1, 2)), t.roll(7)


def diagonals(t, x):
    yield t.diagonal(), t.diagonal(1, -1, 0), t.diagonal(-1, 1, 2), torch.diag_embed(x)
    yield torch.diagonal_scatter(x, x[0, :3]), torch.diagonal_scatter(x, x[0, :2], -1)
    yield torch.diagonal_scatter(t, t[:, 0, :3], 1, 1, 2), x.trace(), torch.diag(x[0])


def copies_of_views(t):
    yield aten.view_copy(t, (6, 4)), aten.permute_copy(t, (2, 0, 1)), aten.expand_copy(t, (3, 2, 3, 4))
    yield aten.slice_copy(t, 1, 0, 2), aten.select_copy(t, 0, 1), *aten.unbind_copy(t, 1)
    yield aten.transpose_copy(t, 0, 1), aten.unsqueeze_copy(t, 0), aten.diagonal_copy(t)
    yield (
        *aten.split_copy(t, 2, 1),
        *aten.split_with_sizes_copy(t, [1, 3], 2),
        aten.unfold_copy(t, 2, 2, 1),
    )
    yield torch.narrow(t, 1, 1, 2), torch.narrow(t, 2, -2, 1), aten.squeeze_copy(t[:, :1], 1)
    yield aten.narrow_copy(t, 0, 1, 1)


def inverses(a):
    yield torch.linalg.inv(a), a.inverse(), torch.linalg.det(a), a.det(), *torch.linalg.slogdet(a), a.logdet()
    yield (-a[0]).logdet(), torch.linalg.matrix_power(a, 3), torch.linalg.matrix_power(a, -2), a.matrix_power(2)
    yield torch.linalg.inv_ex(a).inverse, aten._linalg_det(a)[0], aten._linalg_slogdet(a)[1]
    yield torch.linalg.tensorinv(a[0].reshape(4, 2, 2), ind=1)


def equations(a, t):
    yield torch.linalg.solve(a, a + 1), torch.linalg.solve(a, a[0]), torch.linalg.solve(a, t.mT)
    yield torch.linalg.solve(a, t, left=False), torch.linalg.solve(torch.stack([a, a]), t[:, 0])
    yield torch.linalg.solve_ex(a, a[:, :2]).result, aten._linalg_solve_ex(a, a[0])[0]
    yield torch.linalg.solve_triangular(a, a[:, :2], upper=True)
    yield torch.linalg.solve_triangular(a, a, upper=False, unitriangular=True)
    yield torch.linalg.solve_triangular(a, a[:2], upper=True, left=False)
    yield torch.triangular_solve(a[:, :1], a)[0]
    yield torch.triangular_solve(a, a, upper=False, transpose=True).solution
    yield torch.linalg.tensorsolve(a, a[0])


def factors(a, x):
    yield torch.linalg.cholesky(a), torch.linalg.cholesky(a, upper=True), torch.cholesky(a)
    yield torch.linalg.cholesky_ex(a).L, torch.cholesky_solve(a, a + 4), torch.cholesky_solve(a, a, True)
    yield torch.cholesky_inverse(a), torch.cholesky_inverse(a, upper=True)
    yield (
        *(f.abs() for f in torch.linalg.qr(x)),
        torch.linalg.qr(x, mode="complete")[1].abs(),
    )
    yield torch.linalg.qr(x.mT, mode="r")[1].abs(), *(f.abs() for f in torch.linalg.eigh(a))
    yield torch.linalg.eigvalsh(a), torch.linalg.eigvalsh(a, UPLO="U"), aten._linalg_eigh(a)[0]
    yield aten._linalg_eigh(a, compute_v=False)[0], torch.linalg.svd(x)[1]
    yield (
        *(f.abs() for f in torch.linalg.svd(x, full_matrices=False)),
        torch.linalg.svdvals(x),
    )
    yield aten._linalg_svd(x, False, False)[1]


def ranks_and_norms(a, x):
    yield torch.linalg.pinv(x), torch.linalg.pinv(x, rtol=0.1), torch.pinverse(x.mT)
    yield torch.linalg.matrix_rank(x), torch.linalg.matrix_rank(a, hermitian=True)
    yield torch.linalg.pinv(a, hermitian=True)
    yield torch.linalg.matrix_rank(x, atol=1.0), torch.linalg.matrix_rank(x, rtol=0.5), torch.linalg.cond(a)
    yield torch.linalg.cond(a, 1), torch.linalg.norm(x), torch.linalg.norm(x, 1), torch.linalg.norm(x, "nuc")
    yield torch.linalg.norm(x, 2, 0), torch.linalg.norm(x, dim=(0,), keepdim=True)
    yield torch.linalg.norm(x, float("inf"), (1, 0)), torch.linalg.norm(x[0], 3.0)
    yield torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 2, keepdim=True)
    yield torch.linalg.matrix_norm(x, "nuc"), torch.linalg.matrix_norm(x, -1, dtype=torch.float64)
    yield torch.linalg.multi_dot([x, a, a[0]]), torch.linalg.vecdot(x, x, dim=0)
    yield torch.linalg.cross(x[:, :3], x[:, 1:]), torch.cross(x.mT, x.mT + 1, dim=1)
    yield torch.linalg.vander(x[0])


def distances(x, t):
    yield (
        *(torch.cdist(x, x[:2], p) for p in (2.0, 1.0, 0.0, 3.0, float("inf"))),
        torch.cdist(t, t[:1]),
    )
    yield torch.cdist(x[:, :0], x[:, :0], float("inf")), *(F.pdist(x, p) for p in (2.0, 1.0, float("inf")))
    yield F.pdist(x[:1]), torch.dist(x, x[0]), torch.dist(x, -x, 1)


def searches(x, n):
    yield torch.bucketize(x, x[0].sort()[0]), torch.bucketize(n, n[0].sort()[0], right=True)
    yield torch.searchsorted(x.sort(1)[0], x), torch.searchsorted(x.sort(1)[0], x, right=True)
    yield torch.searchsorted(x[1], x, sorter=x[1].argsort(), side="right", out_int32=True)
    yield torch.searchsorted(n.sort(1)[0], n[:, :1].contiguous()), torch.histc(x, 5), torch.histc(x, 4, -2.0, 2.0)
    yield x.nanmedian(), (0 / x).nanmedian(1), (0 / x).nanmedian(0, keepdim=True)[0]


def more_products(t, x):
    yield torch.addmv(x[:, 0], x, x[0]), torch.addmv(x[:, 0], x, x[0], beta=2, alpha=0.5)
    yield torch.addbmm(x[:3, :3], t, t.mT, alpha=2), F.bilinear(x[:, :2], x, t[:, :2])


def special_functions(x):
    yield x.lgamma(), (x + 0.3).digamma(), x.erfc(), (x / 8).erfinv(), torch.i0(x), torch.special.i0e(x)
    yield torch.special.i1(x), torch.special.i1e(x), torch.polygamma(1, x.abs() + 1)
    yield torch.polygamma(2, x.abs() + 1), torch.special.modified_bessel_i0(x)
    yield torch.special.modified_bessel_i1(x), torch.mvlgamma(x.abs() + 3, 2), torch.xlogy(x, x.abs())
    yield torch.special.entr(x), torch.special.erfcx(x), torch.special.ndtri(x.sigmoid() / 2), torch.special.log_ndtr(x)
    yield (
        torch.special.ndtr(x),
        torch.igamma(x.abs().detach() + 1, x.abs()),
        torch.igammac(x.detach().abs() + 1, x.abs()),
    )


def more_arithmetic(x, n):
    yield torch.nextafter(x, x.flip(0)), torch.fmax(x, 0 / x), torch.fmin(0 / x, x), torch.gcd(n, n.flip(0))
    yield torch.lcm(n, n.flip(1)), n << 2, n.abs() >> 1, torch.bitwise_left_shift(n, n.abs() % 5)
    yield torch.bitwise_right_shift(n, 1), x.signbit(), n.signbit(), torch.ldexp(x, n % 4), *torch.frexp(x)
    yield torch.fill(x, 2.0), torch.fill(n, x[0, 0]), torch.logaddexp(x, x + 1), torch.float_power(x, 2)


def empty(x):
    yield torch.empty(x.shape).fill_(1), torch.empty_like(x).zero_(), x.new_empty((2, 2)).fill_(3)
    yield torch.empty((3, 0)), torch.empty_strided((2, 3), (3, 1)).zero_()
    yield x.new_empty_strided((2,), (1,)).zero_(), torch.tril_indices(3, 4), torch.triu_indices(3, 3, 1)
    yield torch.empty_permuted((2, 0), (1, 0)), x.numel() * x


def numbers(x, n):
    """A number is a row of one element."""
    for a in (x[0, 0], n[0, 0]):
        yield a.sum(0), a.prod(-1), a.amax(0), a.amin(0, keepdim=True), a.max(0), a.min(-1), a.argmax(0), a.argmin(0)
        yield a.cumsum(0), a.cumprod(0), a.cummax(0), a.cummin(0), a.sort(0), a.argsort(), a.topk(1), a.kthvalue(1)
        yield a.median(0), a.transpose(0, 0), a.index_select(0, n[1, 1:2]), a.gather(0, n[1, 1:2][0]), a.any(0), a.t()
        yield a.squeeze(), a.squeeze(0), a.roll(0), aten.transpose_copy(a, 0, 0)
    a = x[0, 0]
    yield a.mean(0), a.softmax(0), a.log_softmax(0), a.logsumexp(0), a.logcumsumexp(0), a.nanmedian(0)
    yield a.var(0, correction=0), torch.var_mean(a, 0, correction=0), torch.linalg.vector_norm(a, dim=0), a.norm(2, 0)


def variances(x):
    yield x.var(False), x.var(1, False), x.var(1, correction=1.5), x.std(False), x.std(0, correction=0.25)
    yield torch.var_mean(x, False), torch.var_mean(x, 1, False, True), torch.std_mean(x, 0, correction=2)
    yield x.round(decimals=1), x.round(decimals=-1), (x.bfloat16() * 7).round(decimals=0), x.double().round(decimals=2)


def bools_and_integers(n):
    yield n.round(), n.conj_physical(), n.floor(), n.sign(), n.sgn()
    yield (
        (n > 0).sign(),
        (n > 0).sgn(),
        (n > 0).conj_physical(),
        (n > 0).masked_fill(n > 3, 10),
        n.masked_fill(n > 3, 7),
    )


def indices_found(x):
    yield torch.nonzero_static(x, size=4), torch.nonzero_static(x > 9, size=2, fill_value=7)
    yield x[0].gather(0, x.long()[:0]), torch.empty(0, 4).roll(1, 0) + x[:0]


def gradients(x, i):
    yield aten.embedding_dense_backward(x, i[:, 0].new_tensor([1, 4, 1]), 5, -1, False)
    yield aten.embedding_dense_backward(x, i[0, :3], 3, 2, True)
    yield (
        *aten.native_layer_norm_backward(
            x + 1, x, (4,), x.mean(1, True), 1 / x.std(1, keepdim=True), x[0], x[1], [True, True, True]
        ),
    )
    yield aten.native_layer_norm_backward(
        x + 1, x, (3, 4), x.mean().reshape(1, 1), 1 / x.std().reshape(1, 1), None, None, [True, False, False]
    )[0]


def gradients_of_layers(t):
    t, none = t.double(), [0, 0]  # long sums
    x, steps = t[:, None].repeat(1, 4, 1, 1), ([2, 1], [1, 1], [1, 1])
    w = (torch.arange(72.0).double().reshape(2, 4, 3, 3) * 0.3).sin()
    y = torch.convolution(x, w, None, *steps, False, none, 1)
    yield aten.convolution_backward(y, x, w, [2], *steps, False, none, 1, [True, True, True])
    y = torch.convolution(y, w, None, *steps, True, [1, 0], 1)
    yield aten.convolution_backward(y, y[:, :2, :2, :4], w, None, *steps, True, [1, 0], 1, [True, True, False])[:2]
    yield aten.avg_pool2d_backward(x[..., :2, :3], x, [2, 2], [1, 1], none, False, True, None)
    yield aten.avg_pool2d_backward(x[..., :2, :2], x, [2, 2], [], [1, 0], False, False, 3)
    yield aten._adaptive_avg_pool2d_backward(x[..., :2, :2], x)
    y, i = F.max_pool2d(x, 2, 1, return_indices=True)
    yield aten.max_pool2d_with_indices_backward(y, x, [2, 2], [1, 1], none, [1, 1], False, i)
    y, mean, scale = torch.native_group_norm(x, t[0, 0], t[0, 1], 2, 4, 12, 2, 1e-5)
    yield aten.native_group_norm_backward(x + y, x, mean, scale, t[0, 2], 2, 4, 12, 2, [True, True, True])
    yield aten.native_group_norm_backward(x, x, mean, scale, None, 2, 4, 12, 2, [True, False, False])[0]


def chapters(arguments):
    """Functions that return all that generators yield, and their arguments, by the generators' names."""
    return {f.__name__.replace("_", " "): (_gathered(f), *args) for f, args in arguments.items()}


def _gathered(function):
    return lambda *args: tuple(function(*args))


CHAPTERS = chapters({
    scatter: (X, INDICES, N), scatter_add: (X, INDICES, N), scatter_reduce: (X, INDICES, N), index_put: (X, N),
    index_put_of_sums: (X, N), indices_of_one_axis: (X, ROWS, N), flat_indices: (X, ROWS), strides: (BATCH,),
    diagonals: (BATCH, X), copies_of_views: (BATCH,), inverses: (torch.stack([SQUARE, SQUARE + torch.eye(4)]),),
    equations: (SQUARE, BATCH), factors: (SQUARE, X), ranks_and_norms: (SQUARE, X), distances: (X, BATCH),
    searches: (X, N), more_products: (BATCH, X), special_functions: (X,), more_arithmetic: (X, N), empty: (X,),
    numbers: (X, N), variances: (X,), bools_and_integers: (N,), indices_found: (X,), gradients: (X, INDICES),
    gradients_of_layers: (BATCH,),
})  # fmt: skip
