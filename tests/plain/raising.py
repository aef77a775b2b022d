"""Functions that raise exceptions which values decide, with calls that do and do not."""

import numpy as np

X = np.array([1.0, 4.0, 2.0, 9.0])
BAD = np.array([1.0, 4.0, -2.0, 9.0])
CASES = []


def case(*calls):
    """The calls of a function: a tuple of arguments each."""

    def noted(function):
        CASES.extend((function, args) for args in calls)
        return function

    return noted


class Diverged(Exception):
    """An exception of a user's, with attributes."""

    def __init__(self, step, value):
        super().__init__(f"diverged at step {step}: {value:.3f}")
        self.step, self.value = step, value


def checked(x):
    if np.any(x < 0):
        raise ValueError("negative")
    return x


def root(v):
    if v < 0:
        raise ValueError(f"root of {v}")
    return np.sqrt(v)


def fail(what):
    raise KeyError(what)


class Solver:
    def __init__(self, steps):
        self.steps = steps

    def check(self, x):
        assert len(x) >= self.steps, "short"
        if x.max() > 10:
            raise OverflowError(f"{x.max():.1f} > 10")

    def run(self, x):
        self.check(x)
        for _ in range(self.steps):
            x[:] = 0.5 * (x + 1)
        return x


@case((X.copy(),), (BAD,))
def behind_a_check(x):
    checked(x)
    y = np.zeros_like(x)
    for i in range(x.size):
        y[i] = np.sqrt(x[i])
    x[0] = 7
    return y


@case((X,), (BAD,))
def result_of_a_check(x):
    y = checked(x) * 2
    total = 0.0
    while total < y.sum():
        total += y.max()
    x += 1
    return total


@case((X,), (np.array([1.0, 2.0, 0.0, 3.0]),))
def in_a_loop(x):
    for i in range(x.size):
        if x[i] == 0:
            raise ZeroDivisionError(f"element {i} of {x.size} is 0; {x[i]!r} {i:3d}")
        x[i] = 1 / x[i]
    return x.sum()


@case((X, 1000.0), (X, 2.0))
def with_attributes(x, most):
    total = 0.0
    for k, v in enumerate(x):
        total += v * v
        if total > most:
            raise Diverged(k, total)
    return total


@case((X,), (-X,))
def of_a_computed_size(x):
    y = x[x > 0]
    if y.size == 0:
        raise ValueError("nothing positive")
    return y


@case((X, 3), (X, -3), (np.ones(4), 3), (np.array([1, np.nan]), 3), (np.ones((2, 2)), 3), (X + 10, 3))
def guards(x, n):
    if n < 0:
        raise ValueError("n")
    if x.ndim != 1:
        raise TypeError("one axis, please")
    if np.isnan(x).any():
        raise FloatingPointError("nan")
    low, high = x.min(), x.max()
    if low == high:
        raise ValueError("constant: %s" % low)
    elif low > 10:
        return x * 0
    z = (x - low) / (high - low)
    assert z.max() <= 1.0
    return z


@case((2.0,), (200.0,))
def bisection(x, tol=1e-8):
    lo, hi = 0.0, 10.0
    if (lo * lo - x) * (hi * hi - x) > 0:
        raise ValueError("no sign change")
    while hi - lo > tol:
        mid = 0.5 * (lo + hi)
        if mid * mid < x:
            lo = mid
        else:
            hi = mid
    return lo


@case((X, 0), (X, 1), (X, 2))
def on_one_side(x, k):
    if k == 0:
        y = x
    elif k == 1:
        y = -x
    else:
        fail(k)
    return y + 1


@case((X,), (np.ones(0),), (np.array([np.inf]),))
def assertions(x):
    n = len(x)
    assert n > 0, "empty"
    assert np.all(np.isfinite(x)), f"{n} are not finite"
    return x.mean()


@case((np.array([[4.0, 1.0], [1.0, 3.0]]),), (np.array([[1.0, 2.0], [2.0, 1.0]]),))
def cholesky(a):
    n = a.shape[0]
    factor = np.zeros_like(a)
    for i in range(n):
        for j in range(i + 1):
            s = a[i, j] - factor[i, :j] @ factor[j, :j]
            if i == j:
                if s <= 0:
                    raise np.linalg.LinAlgError("not positive definite")
                factor[i, j] = np.sqrt(s)
            else:
                factor[i, j] = s / factor[j, j]
    return factor


@case((X,), (-X,))
def with_a_cause(x):
    if x[0] > 0:
        raise ValueError("a") from KeyError("b")


@case((X,), (BAD,))
def of_a_list(x):
    out = []
    for v in x:
        if v < 0:
            raise ValueError(v)
        out.append(np.sqrt(v))
    return np.array(out)


@case((X,), (BAD,))
def in_a_comprehension(x):
    return sum([root(v) for v in x])


@case((100.0,), (1e30,))
def with_else(x):
    n = 0
    while x > 1:
        x = x / 2 if n % 2 == 0 else x - 0.25
        n += 1
        if n > 50:
            raise RuntimeError("too many")
    else:
        n += 100
    return n


@case((X,), (BAD,))
def stored(x):
    for i in range(len(x)):
        x[i] = root(x[i])
    return x.sum()


@case((X,), (BAD,))
def written_behind(x):
    total = 0.0
    for i in range(len(x)):
        total += root(x[i])
        x[i] = 0
    x[:] = 5
    return total


@case((X,), (X[:1],), (X * 10,))
def in_a_method(x):
    return Solver(2).run(x)


@case((X[:1],), (X,))
def in_a_function_inside(x):
    def small(v):
        if v > 3:
            raise IndexError("big")
        return v * 2

    total = 0.0
    for v in x:
        total += small(v)
    return total


@case((X, checked), (BAD, checked))
def in_an_argument(x, function):
    function(x)
    x *= 2
    return x


@case((X,), (np.array([1.0, -1.0]),), (BAD - 2,))
def on_one_side_of_two(x):
    if x[0] > 0:
        checked(x)
        y = x * 2
    else:
        y = x * 3
    return y


@case((X,), (BAD,))
def through_finally(x):
    try:
        checked(x)
    finally:
        x[0] = 9
    return x


@case((np.array([4.5, 2.0]),), (np.array([4.0, 2.0]),))
def endless(x):
    while True:
        x = x - 1
        if x.sum() < -5:
            raise StopIteration
        if x[0] == 0.5:
            return x


@case((X, X), (X, X[1:]))
def of_sizes(x, y):
    if len(x) != len(y):
        raise ValueError(f"{len(x)} is not {len(y):2d}")
    return x @ y


@case((X,), (BAD,))
def return_on_one_side(x):
    if x[0] > 0:
        if x[2] > 0:
            return x.sum()
        else:
            y = x * 2
    else:
        y = x * 3
    return y.max()


@case((X,), (X - 3,))
def always(x):
    if x[0] > 0:
        raise ValueError("positive")
    else:
        raise ValueError(f"{x[0]}")


def counted(x):
    if x[2] < 0:
        raise ValueError("no number of turns")
    return x.size - 1


def positive(x):
    if np.any(x < 0):
        raise ValueError("negative")
    return x * 2


@case((X.copy(), X.copy()), (BAD, X.copy()))
def in_the_head_of_a_loop(x, y):
    total = 0.0
    for i in range(counted(x)):
        y[i] = total
        total += x[i]
    y[3] = -1
    return total


@case((X.copy(), X.copy()), (BAD, X.copy()))
def in_what_a_loop_goes_over(x, y):
    for k in range(2):
        for i, v in enumerate(positive(x)):
            y[i] += v + k
        y[0] = 5
    return y.sum()


@case((X.copy(), X.copy()), (BAD, X.copy()))
def over_what_a_function_returns(x, y):
    for v in positive(x):
        if v > 10:
            break
        y[0] += v
    else:
        y[1] = 0
    y[2] = 7
    return y


@case((X.copy(), X.copy()), (BAD, X.copy()))
def in_iterators_inside_of_others(x, y):
    total = 0.0
    for i, (u, v) in enumerate(zip(positive(x), y, strict=True), start=1):
        y[i - 1] = u * v
        total += i
    return total
