"""Writes into arrays that other names and the caller see."""

import numpy as np

from tests.plain.constructs.case import A, X, case


class Thing:
    """Something with attributes."""


@case(X)
def nonlocal_deep(x):
    n = 0.0

    def outer():
        def inner(v):
            nonlocal n
            n += v

        for v in x:
            inner(v)

    outer()
    return n


@case(A)
def sumrows(A):
    return sum(A)


@case(X, 4)
def arglist(x, n):
    # nested aliasing through containers
    d = {"a": x.copy()}
    b = d["a"]
    for i in range(n):
        b[i] = 5.0
        d["a"][i + 1] += b[i]
    return d["a"], b


@case(X, 4)
def alias_read(a, n):
    a = a.copy()
    b = a
    for i in range(n):
        b[0] += a[0] + 1
        b = b.copy()
    return a, b


@case(X, 4)
def alias_end(a, n):
    a = a.copy()
    w = np.zeros_like(a)
    for i in range(n):
        w[0] = i + 1
        w = a
    return a, w


@case(X, 4)
def alias_after(a, n):
    y = a.copy()
    w = np.zeros_like(a)
    for i in range(n):
        w = y
    w[0] = 99
    return y, w


@case(X, 4)
@case(X, 0)
def alias_arg_after(u, n):
    for i in range(n):
        u = u * 2
    u[0] = 5
    return u


@case(X, 4)
def view_of_carried(u, n):
    u = u.copy()
    v = u[::-1]
    for i in range(n):
        u[i] += v[i]
    return u, v


@case(X, 4)
def view_rebound(u, n):
    u = u.copy()
    v = u
    for i in range(n):
        v = u[::-1]
        v[i] += 1
    return u


@case(X, 4)
def three_swap(u, n):
    a = u.copy()
    b = u * 2
    c = u * 3
    for i in range(n):
        a[0] = i
        a, b, c = b, c, a
    return a, b, c


@case(X, 4)
def swap_in_branch(u, n):
    a = u.copy()
    b = u * 2
    for i in range(n):
        if u[i] > 1:
            a, b = b, a
        a[i] = -5
    return a, b


@case(X, 4)
def branch_in_loop_write(u, n):
    a = u.copy()
    for i in range(n):
        if u[i] > 1:
            a[i] = 100
        elif u[i] < -1:
            a[i:] = 7
        else:
            a = a + 1
    return a


@case(X, 4)
def early_write(u, n):
    for i in range(n):
        u[i] = 7
        if u[i + 1] > 4:
            return u[:i]
    return u


@case(X, 4)
def early_write2(u, n):
    for i in range(n):
        u[i] = 7
        if u[i + 1] > 4:
            return u[i]
        u[i] += 1
    return -1.0


@case(X, 4)
def ret_in_branch_write(u, n):
    if u[0] > 0:
        u[1] = 50
        return 1.0
    u[2] = 60
    return 2.0


@case(-X, 4)
def ret_in_branch_write2(u, n):
    if u[0] > 0:
        u[1] = 50
        return 1.0
    u[2] = 60
    return 2.0


@case(X, 3)
def aug_attr_arr(x, n):
    o = Thing()
    o.v = x.copy()
    for i in range(n):
        o.v[i] += 5
    o.v += 1
    return o.v


@case(X, 3)
def obj_method_state(x, n):
    class S:
        def __init__(self):
            self.a = np.zeros(12)
            self.n = 0.0

        def upd(self, i, v):
            self.a[i] = v

    s = S()
    for i in range(n):
        s.upd(i, x[i])
    return s.a


@case(X, 3)
def tern_write(x, n):
    for i in range(len(x)):
        x[i] = 0 if x[i] < 0 else (1 if x[i] > 3 else x[i])


@case(X, 3)
def inplace_list_swap(x, n):
    l = [x.copy(), x * 2]
    for i in range(n):
        l[0], l[1] = l[1], l[0]
    return l


@case(X)
def deep(x):
    t = 0
    for i in range(3):
        for j in range(4):
            for k in range(5):
                if k == 3:
                    break
                if j == 2:
                    continue
                t += i * j * k
            else:
                t += 1000
        if i == 1:
            break
    return t


@case(5, 12)
def reshape_n(n, m):
    x = np.arange(n * m).reshape(n, m)
    return x.sum(axis=0)[:3]


@case(X)
def cond_expr_alias(x):
    a = x.copy()
    b = x * 2
    c = a if x[0] > 0 else b
    c[0] = 99
    return c


@case(X)
def cond_expr_alias2(x):
    a = x.copy()
    b = x * 2
    c = a if x[0] > 0 else b
    c[0] = 99
    return a


@case(X)
def arg_cond_alias(x):
    c = x if x[0] > 0 else x * 2
    c[0] = 99


@case(X)
def maybe_view_arg(x):
    y = x[::2].reshape(-1)
    y[0] = 7


@case(A)
def resh_arg(A):
    b = A.reshape(-1)
    for i in range(5):
        b[i] = -1


@case(A.T.copy().T)
def resh_arg_f(A):
    b = A.reshape(-1)
    for i in range(5):
        b[i] = -1


@case(A)
def trans_loop(A):
    T = A.T
    for i in range(4):
        for j in range(3):
            T[i, j] += i * 10


@case(A)
def diag(A):
    for i in range(3):
        A[i, i] = 0
    A[:, 0] = A[:, 1]


@case(X[::2])
def noncontig(x):
    for i in range(len(x)):
        x[i] += 1


@case(A[:, ::2])
def noncontig2(A):
    for r in A:
        r += 1


@case(X)
def slices_shift(x):
    for i in range(3):
        x[1:] = x[:-1]


@case(X)
def fancy(x):
    idx = np.array([0, 2, 4])
    for i in range(3):
        x[idx] += x[idx + 1]


@case(X)
def mask_write(x):
    for i in range(3):
        x[x < i] += 10


@case(X)
def dict_of_arrays(x):
    d = {"u": x.copy(), "v": x * 0}
    for i in range(len(x)):
        d["v"][i] = d["u"][i] * 2
    return d["v"]


@case(X)
def dict_rebound(x):
    d = {"u": x.copy()}
    for i in range(len(x)):
        d = {"u": d["u"] * 0.5}
    return d["u"]


@case(X)
def accumulate_rows(x):
    out = np.empty((12, 2))
    for i, v in enumerate(x):
        out[i] = [v, v * v]
    return out
