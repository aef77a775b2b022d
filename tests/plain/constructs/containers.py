"""Lists, dicts, tables, rows and functions that loops read and write."""

import numpy as np

from tests.plain.constructs.case import X, case


@case(X, 3)
def subclass_loop(x, n):
    class L(list):
        pass

    l = L()
    l.append(x)
    for i in range(n):
        l.append(x * i)
    return l[-1]


@case(X, 3)
def zip_range(x, n):
    s = 0.0
    for i, j in zip(range(n), range(1, 100)):
        s += x[i] * j
    return s


@case(X, 3)
def zip_gen(x, n):
    s = 0.0
    for i, v in zip(range(3), (a * 2 for a in [1.0, 2.0, 3.0])):
        s += v * x[i]
    return s


@case(X, 3)
def map_filter(x, n):
    return sum(map(lambda v: v * 2, [x[0], x[1]])), list(map(lambda v: v if v > 0 else -v, [x[0], x[1]]))[1]


@case(X, 3)
def sorted_key(x, n):
    return sorted([3, 1, 2], key=lambda v: -v)[0] * x


@case(X, 3)
def dictcomp(x, n):
    d = {i: x[i] for i in range(3)}
    s = 0.0
    for k in d:
        s += d[k] * k
    return s


@case(X, 3)
def nested_list_2d(x, n):
    g = [[0.0] * 3 for _ in range(3)]
    for i in range(3):
        for j in range(3):
            g[i][j] = x[i] * x[j]
    return np.array(g)


@case(X, 10)
def list_as_vec(x, n):
    f = [0] * 12
    f[1] = 1
    for i in range(2, 12):
        f[i] = f[i - 1] + f[i - 2]
    return x * f[11]


@case(X, 3)
def tuple_index(x, n):
    t = (1.0, 2.0, 3.0)
    s = 0.0
    for i in range(3):
        s += t[i] * x[i]
    return s


@case(X, 3)
def const_table(x, n):
    t = [1.0, 2.0, 3.0, 4.0]
    s = 0.0
    for i in range(n):
        s += t[i] * x[i]
    return s


TAB = np.array([1.0, 2.0, 3.0, 4.0])


@case(X, 3)
def const_array(x, n):
    s = 0.0
    for i in range(n):
        s += TAB[i] * x[i]
    return s


@case(X, 3)
def const_array_row(x, n):
    M = np.arange(16.0).reshape(4, 4)
    s = 0.0
    for i in range(n):
        s += M[i, n - i] * x[i]
    return s


@case(X, 3)
def isnone_arg(x, n, w=None):
    if w is None:
        w = np.ones(len(x))
    for i in range(n):
        x[i] *= w[i]


@case(X, 3)
def while_pop(x, n):
    stack = [1, 2, 3]
    s = 0.0
    while stack:
        k = stack.pop()
        s += x[k]
    return s


@case(X, 3)
def while_len(x, n):
    l = []
    while len(l) < 12:
        l.append(x[len(l)])
    return np.array(l)


@case(X, 1e-3)
def do_while(x, tol):
    d = np.inf
    it = 0
    while d > tol and it < 50:
        new = 0.5 * x
        d = np.max(np.abs(new - x))
        x = new
        it += 1
    return x, it


@case(X, 3)
def cond_def(x, n):
    if n > 2:

        def g(v):
            return v * 2
    else:

        def g(v):
            return v * 3

    return g(x)


@case(X, 3)
def cond_def_traced(x, n):
    if x[0] > 2:

        def g(v):
            return v * 2
    else:

        def g(v):
            return v * 3

    return g(x)


@case(X, 3)
def lambda_in_loop(x, n):
    s = 0.0
    for i in range(n):
        h = lambda v: v + i
        s += h(x[i])
    return s


@case(X, 3)
def argmin_loop(x, n):
    while x.min() < 0:
        x[np.argmin(x)] = 1.0
    return x.sum()


@case(X, 3)
def swap_rows(x, n):
    M = np.arange(12.0).reshape(3, 4)
    for i in range(2):
        M[[i, i + 1]] = M[[i + 1, i]]
    for i in range(n - 1):
        tmp = M[i].copy()
        M[i] = M[i + 1]
        M[i + 1] = tmp
    return M


@case(X, 3)
def swap_rows_bad(x, n):
    M = np.arange(12.0).reshape(3, 4)
    for i in range(n - 1):
        tmp = M[i]
        M[i] = M[i + 1]
        M[i + 1] = tmp
    return M


@case(X, 3)
def swap_rows_tuple(x, n):
    M = np.arange(12.0).reshape(3, 4)
    for i in range(n - 1):
        M[i], M[i + 1] = M[i + 1], M[i]
    return M


@case(X, 5)
def inner_fn_alias(x, n):
    def pick(a, b, c):
        return a if c else b

    y = x.copy()
    z = x * 2
    w = pick(y, z, n > 3)
    w[0] = 77
    return y, z


@case(X, 5)
def helper_returns_arg(x, n):
    def same(a):
        return a

    y = x.copy()
    for i in range(n):
        z = same(y)
        z[i] = i
    return y


@case(X, 5)
def view_alias_loop(x, n):
    y = x.copy()
    for i in range(n):
        w = y[1:]
        w += 1
        y[i] = w[0]
    return y


@case(X, 5)
def iter_mutating(x, n):
    s = 0.0
    for v in x:
        x[-1] += 1
        s += v
    return s


@case(X, 5)
def iter_rebinding(x, n):
    s = 0.0
    for v in x:
        x = x * 2
        s += v
    return s, x


@case(X, 5)
def range_rebinding(x, n):
    s = 0
    for i in range(n):
        n = 100
        s += i
    return s, n


@case(X, 5)
def enum_mutating(x, n):
    for i, v in enumerate(x):
        x[(i + 1) % 12] += v
    return None


@case(X, 5)
def neg_while(x, n):
    i = n
    while i:
        i -= 1
        x[i] = 0
    return i


@case(X, 5)
def deferred_read(x, n):
    y = x[0]
    for i in range(n):
        x[0] += 1
    return y, x[0]
