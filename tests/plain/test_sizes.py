"""Sizes that differ from turn to turn of a loop, or depend on values: slices, triangular loops, masks, indices."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import zenith
from zenith.errors import CheckError, UnsupportedError

RNG = np.random.default_rng(7)
X, Y, M = RNG.normal(size=20), RNG.normal(size=20), RNG.normal(size=(9, 4))


# --- what differs from turn to turn ---------------------------------------------------------------------------------


def prefix_sums(x):
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = x[: i + 1].sum()
    return out


def suffixes(x):
    out = np.zeros(len(x))
    for i in range(len(x)):
        out[i:] += x[i] * x[i:]
        out[: i // 2] -= 1.0
    return out


def window(x, w):
    out = np.empty(len(x))
    for i in range(len(x)):
        out[i] = x[max(0, i - w) : min(len(x), i + w + 1)].mean()
    return out


def beyond_the_end(x):
    s = 0.0
    for i in range(len(x) + 5):
        s += x[i : i + 3].sum() - x[:i].sum() + len(x[2 * i :])
    return s


def triangle_of_slices(x):
    s = 0.0
    for i in range(len(x)):
        for j in range(i, len(x), 2):
            s += x[i : j + 1] @ x[i : j + 1]
    return s


def backwards(x):
    out = x.copy()
    for i in range(len(x) - 1, 0, -1):
        out[:i] -= 0.1 * np.tanh(out[i] * out[:i][::-1])
    return out


def temporaries(x):
    s, part = 0.0, x
    for i in range(1, len(x)):
        part = np.sin(x[:i])
        s += part.sum()
    for i in range(len(x)):
        part = x[i:] * 2
        s -= part[0]
    return s


def rows(a):
    s = np.zeros(a.shape[1])
    for i in range(a.shape[0]):
        for row in a[i:]:
            s += row * i
    return s


def transforms_of_slices(x):
    s = 0.0
    for i in range(len(x)):
        s += np.abs(np.fft.fft(x[: i + 1])).max() + np.fft.irfft(np.fft.rfft(x[i:]), len(x) - i)[0]
    return s


def leading_minors(a):
    out = np.zeros(len(a))
    for i in range(len(a)):
        out[i] = np.linalg.det(a[: i + 1, : i + 1])
    return out


def sizes_as_numbers(x):
    s = 0.0
    for i in range(len(x)):
        part = x[i:]
        if len(part) % 2 == 0:
            s += part.mean() * len(part)
        s += np.arange(len(part)).sum()
    return s


TURNS = [
    (prefix_sums, (X,)), (suffixes, (X,)), (window, (X, 3)), (beyond_the_end, (X,)), (triangle_of_slices, (X,)),
    (backwards, (X,)), (temporaries, (X,)), (rows, (M,)), (sizes_as_numbers, (X,)),
    (transforms_of_slices, (X,)), (leading_minors, (np.outer(X, RNG.normal(size=50)),)),
]  # fmt: skip


# --- what depends on values -----------------------------------------------------------------------------------------


def positive(x):
    return x[x > 0]


def several(x):
    m = x > 0
    return x[m], np.cumsum(x[m]), len(x[m]), x[~m][::-1]


def indices(x):
    i = np.nonzero(x > 0)[0]
    return x[i] * 2, i, np.argwhere(x > 0.5), np.where(x < 0)[0], np.flatnonzero(x > 0).size


def masked_rows(a):
    m = a[:, 0] > 0
    return a[m].mean(axis=0), a[m] @ np.ones(a.shape[1]), a[m][:, 1]


def mask_of_a_mask(x):
    y = x[x > 0]
    z = y[y < 1]
    return z, np.sort(y)[:2], np.outer(z, z).sum()


def joined(x, y):
    m = x > 0
    return np.concatenate([x[m], y[~m], x[:2]])


def median_of_positive(x):
    return np.median(x[x > 0])


def same_counts(x):
    return np.sort(x[x > 0]) + np.cumsum(x[x > 0.0])


def spectrum_of_positive(x):
    return np.abs(np.fft.fft(x[x > 0])), np.fft.rfft(x[x < 0.5] + 1.0).real.sum()


def sum_of_squares(x):
    s = 0.0
    for v in x[x > 0]:
        s += v * v
    return s


def between(x, ends):
    y = x.copy()
    y[ends[0] : ends[1]] += 5
    y[ends[1] :] = y[ends[0]]
    return y, x[ends[0] : ends[1]], x[: ends[0]].sum(), x[-ends[0] :: 2]


def up_to_the_largest(x):
    return x[: np.argmax(x)], x[np.argmax(x) :]


def per_turn(x):
    out = np.zeros(11)
    for j in range(11):
        m = x > 0.2 * j - 0.5
        out[j] = np.sort(x[m]).sum() + len(x[m])
    return out


def branch_on_a_count(x):
    y = x[x > 1]
    return y.sum() if len(y) > 2 else x.sum()


VALUES = [
    (positive, (X,)), (several, (X,)), (indices, (X,)), (masked_rows, (M,)), (mask_of_a_mask, (X,)), (joined, (X, Y)),
    (median_of_positive, (X,)), (same_counts, (X,)), (sum_of_squares, (X,)), (between, (X, np.array([3, 8]))),
    (between, (X, np.array([-8, 40]))), (between, (X, np.array([9, 4]))), (up_to_the_largest, (X,)), (per_turn, (X,)),
    (branch_on_a_count, (X,)), (spectrum_of_positive, (X,)),
]  # fmt: skip


def same(found, expected) -> None:
    found, expected = (r if isinstance(r, tuple) else (r,) for r in (found, expected))
    for a, b in zip(found, expected, strict=True):
        assert np.shape(a) == np.shape(b) and np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, 1e-12, 1e-12)


def halves(args):
    """The arguments, and others of half the size."""
    return args, tuple(a[len(a) // 2 - 3 :] if isinstance(a, np.ndarray) and a.dtype == float else a for a in args)


@pytest.mark.parametrize("backend", ["cpu", "lanes", "reference"])
@pytest.mark.parametrize(("function", "args"), [*TURNS, *VALUES], ids=lambda v: getattr(v, "__name__", ""))
def test_one_program_serves_all_sizes(function, args, backend):
    compiled = zenith.jit(function, backend=backend)
    for each in halves(args):
        same(compiled(*copy.deepcopy(each)), function(*copy.deepcopy(each)))
    assert compiled.cache_info().misses == 1
    assert not any(loop.kind == "unrolled" for loop in compiled._specializer.latest.origin.loops)


@pytest.mark.parametrize(("function", "args"), TURNS, ids=lambda v: getattr(v, "__name__", ""))
def test_the_number_of_turns_changes_no_program(function, args):
    def text(n):
        first, *rest = args
        compiled = zenith.jit(function)
        compiled(np.resize(first, (n, *first.shape[1:])), *rest)
        return str(compiled._specializer.latest.origin.graph)

    assert text(12) == text(40)


@pytest.mark.parametrize(
    "function",
    [prefix_sums, suffixes, beyond_the_end, triangle_of_slices, backwards, temporaries, per_turn, mask_of_a_mask,
     same_counts, sum_of_squares],
)  # fmt: skip
@pytest.mark.parametrize("wrapped", [zenith.grad, lambda f: zenith.jit(zenith.grad(f))], ids=["eager", "jit"])
def test_derivatives(function, wrapped):
    def loss(x):
        found = function(x)
        return sum(np.sum(np.sin(part)) for part in (found if isinstance(found, tuple) else (found,)))

    gradient, step = wrapped(loss)(X), 1e-6
    for k in (0, 7, 19):
        moved = np.zeros_like(X)
        moved[k] = step
        np.testing.assert_allclose(gradient[k], (loss(X + moved) - loss(X - moved)) / (2 * step), 1e-5, 1e-6)


@pytest.mark.parametrize("function", [prefix_sums, suffixes, triangle_of_slices, backwards])
def test_batches(function):
    many = np.stack([X, Y, X - Y])
    for batched in (zenith.vmap(function), zenith.jit(zenith.vmap(function))):
        same(batched(many), np.stack([function(row) for row in many]))


def test_an_empty_mask_and_an_empty_array():
    compiled = zenith.jit(several)
    same(compiled(-np.ones(3)), several(-np.ones(3)))
    same(compiled(np.zeros(0)), several(np.zeros(0)))


def test_results_own_their_memory_and_are_tensors_for_tensors():
    torch = pytest.importorskip("torch")
    found = zenith.jit(positive)(X)
    assert found.flags.owndata or found.base.nbytes == found.nbytes
    tensor = zenith.jit(positive)(torch.tensor([1.0, -1.0, 3.0]))
    assert torch.equal(tensor, torch.tensor([1.0, 3.0]))


def test_writes_into_arguments_beside_computed_results():
    def function(x, y):
        x[x > 0] = 0.0
        y[: len(y) // 2] += 1
        return y[y > 1]

    own, plain = ((X.copy(), Y.copy()) for _ in range(2))
    same(zenith.jit(function)(*own), function(*plain))
    same(own, plain)


# --- what is refused, or checked when the program runs ----------------------------------------------------------------


def test_too_few_elements_are_an_error_of_the_call():
    compiled = zenith.jit(lambda x: np.sort(x[x > 0]).max())
    assert compiled(X) == X.max()
    with pytest.raises(CheckError, match="max over an axis without elements"):
        compiled(-np.abs(X))
    assert compiled(X) == X.max()


def test_different_counts_are_an_error_of_the_call():
    compiled = zenith.jit(lambda x, y: np.sort(x[x > 0]) + np.sort(y[y > 0]))
    same(compiled(X, -X[::-1] * -1), np.sort(X[X > 0]) * 2)
    with pytest.raises(CheckError, match="have different sizes"):
        compiled(X, np.ones(20))


def test_each_example_has_a_size_of_its_own():
    function = lambda x: np.sort(x[x > 0]).sum()  # noqa: E731
    same(zenith.vmap(function)(np.stack([X, -Y])), np.array([function(X), function(-Y)]))


def early(u, n):
    for i in range(n):
        u[i] = 7
        if u[i + 1] > 0.5:
            return u[:i]
    return u


def printed(x):
    y = np.sort(x[x > 0])
    zenith.debug.print("{}", y)
    return y


@pytest.mark.parametrize(
    ("function", "args", "said"),
    [
        (early, (X.copy(), 12), "that a branch may have made one memory, and reads the other"),
        (printed, (X,), "of what has a size that depends on values"),
        (lambda x: np.linalg.qr(x[x > 0][:, None], "complete")[0], (X,), "complete_qr inside a loop or branch"),
    ],
)  # fmt: skip
def test_what_has_no_program_is_refused(function, args, said):
    with pytest.raises(zenith.ZenithError, match=said):
        zenith.jit(function)(*args)


def test_files_and_ejected_programs_have_known_sizes(tmp_path):
    compiled = zenith.jit(positive)
    compiled(X)
    with pytest.raises(UnsupportedError, match="sizes depend on values"):
        compiled.save(tmp_path / "positive.zenith")
    with pytest.raises(UnsupportedError, match="sizes depend on values"):
        compiled.eject(tmp_path / "positive.py")


def test_loops_with_sizes_are_saved_and_ejected(tmp_path):
    compiled = zenith.jit(suffixes)
    expected = compiled(X)
    compiled.save(tmp_path / "suffixes.zenith")
    np.testing.assert_array_equal(zenith.load(tmp_path / "suffixes.zenith")(X), expected)
    compiled.eject(tmp_path / "suffixes.py")
    scope = {}
    exec(compile((tmp_path / "suffixes.py").read_text(), "suffixes.py", "exec"), scope)
    np.testing.assert_array_equal(scope["suffixes"](X), expected)


def test_transforms_of_nothing_are_errors_of_the_call():
    for function in (np.fft.fft, np.fft.rfft):
        compiled = zenith.jit(lambda x, function=function: np.abs(function(x[x > 0])))
        np.testing.assert_allclose(compiled(X), np.abs(function(X[X > 0])), 1e-12, 1e-12)
        with pytest.raises(CheckError):
            compiled(-np.ones(4))
        np.testing.assert_allclose(compiled(X), np.abs(function(X[X > 0])), 1e-12, 1e-12)
    with pytest.raises(zenith.ZenithError, match="frequencies of no points"):
        zenith.jit(lambda x: np.fft.fftfreq(len(x) - 3))(np.ones(3))
