"""Names that share arrays, views, and buffers that change places."""

import numpy as np

from tests.plain.constructs.case import A, X, case


@case(X)
def row_alias(x):
    A = np.zeros((12, 3))
    for i in range(12):
        row = A[i]
        row[1] = x[i]
    return A


@case(X, 3)
def alias_b(a, n):
    b = a.copy()
    c = b
    for i in range(n):
        c[i] = 10 * i
    return b, c


@case(X, 3)
def alias_rebind(a, n):
    b = a
    for i in range(n):
        b = b * 2
        b[0] = 1
    return a, b


@case(X, 3)
def alias_rebind2(a, n):
    b = a
    for i in range(n):
        b[0] += 1
        b = b * 2
    return a, b


@case(X, 2)
def swapbuf_args(u, n):
    v = np.zeros_like(u)
    for _ in range(n):
        v[1:] = u[:-1] + 1
        u, v = v, u
    return u, v


@case(X, 5)
def swapbuf_own(u, n):
    a = u.copy()
    b = np.zeros_like(u)
    keep = a
    for _ in range(n):
        b[1:] = a[:-1] + 1
        a, b = b, a
    return a, b


@case(X, 5)
def swapbuf_keep(u, n):
    a = u.copy()
    b = np.zeros_like(u)
    keep = a
    for _ in range(n):
        b[1:] = a[:-1] + 1
        a, b = b, a
    return a, b, keep


@case(X, 1.0)
@case(X, -1.0)
def branch_alias(x, t):
    y = x.copy()
    if t > 0:
        z = y
    else:
        z = x.copy()
    z[0] = 100
    return y, z, x


@case(X, 1.0)
@case(X, -1.0)
def branch_write(x, t):
    y = x.copy()
    z = y
    if t > 0:
        y[1] = 5
    else:
        z[2] = 6
    return y, z


@case(X, 1.0)
@case(X, -1.0)
def branch_view(x, t):
    y = x.copy()
    if t > 0:
        w = y[2:5]
    else:
        w = y[4:7]
    w[0] = 100
    return y


@case(X, 1.0)
@case(X, -1.0)
def branch_rebind_write(x, t):
    y = x.copy()
    w = y
    if t > 0:
        y = y * 2
        y[0] = 7
    return y, w


@case(X)
def global_write(x):
    global CNT
    CNT = 0
    for i in range(len(x)):
        CNT = CNT + 1
    return CNT


@case(X)
def global_write_branch(x):
    global CNT
    CNT = 0
    if x[0] > 0:
        CNT = 5
    return CNT


@case(X)
def inplace_number(x):
    s = x[0]
    t = s
    for i in range(len(x)):
        s += x[i]
    return s, t


@case(X)
def inplace_array_alias(x):
    s = np.zeros(3)
    t = s
    for i in range(len(x)):
        s += x[i]
    return s, t


@case(X)
def inplace_list(x):
    s = [1.0, 2.0]
    t = s
    for i in range(len(x)):
        s += [3.0]
    return np.array(t)


@case(A)
def rows(A):
    s = np.zeros(4)
    for r in A:
        s = s + r * r[0]
    return s


@case(A)
def rows_write(A):
    for r in A:
        r[0] = 7
    return A


@case(A)
def rows_unpack(A):
    s = 0.0
    for a, b, c, d in A:
        s += a * b - c * d
    return s


@case(X)
def chainassign(x):
    a = b = 0.0
    for v in x:
        a = b = a + v
    return a, b


@case(X)
def chainassign_arr(x):
    a = b = np.zeros(3)
    for v in x:
        a[0] += v
    return a, b


@case(X, 3)
def viewcarried(x, n):
    y = x.copy()
    w = y[2:6]
    for i in range(n):
        w[i] = -1
        y[2 + i] += 5
    return y, w


@case(X, 3)
def view_reassigned(x, n):
    y = x.copy()
    w = y
    for i in range(n):
        w = y[1:]
        w[0] = 50
    return y


@case(X, 3)
def tupcarry(x, n):
    p = (0.0, x.copy())
    for i in range(n):
        p = (p[0] + 1, p[1] * 2)
    return p


@case(X, 3)
def tupcarry_write(x, n):
    p = (0.0, x.copy())
    for i in range(n):
        p[1][i] = 3
        p = (p[0] + 1, p[1])
    return p


@case(X, 3)
def listofarrays(x, n):
    l = [x.copy(), x * 2]
    for i in range(n):
        l[0][i] = 9
    return l


@case(X, 3)
def listofarrays2(x, n):
    l = [x.copy(), x * 2]
    for i in range(n):
        l[i % 2][i] = 9
    return l


@case(X, 2)
def argtwice_helper(x, n):
    def f(a, b):
        for i in range(n):
            a[i] = b[i + 1]

    f(x, x)
    return x


@case(X, 2)
def argview_helper(x, n):
    def f(a, b):
        for i in range(len(a)):
            a[i] = b[i] * 2

    f(x[:5], x[1:6])
    return x


@case(X)
def returned_view(x):
    x[0] = 50
    return x[:3]


@case(X)
def returned_arg(x):
    x[0] = 50
    return x, x


@case(X, X.copy())
def overl(x, y):
    x[:] = y
    y[:] = x * 2
    return None


@case(X)
def sortm(x):
    x.sort()
    return x[0]


@case(X)
def fill(x):
    x.fill(3.0)


@case(X)
def addat(x):
    np.add.at(x, np.array([0, 0, 1]), 1.0)


@case(X)
def outarg(x):
    np.multiply(x, 2, out=x)
    np.add(x, x, x)


@case(A)
def shapeassign(A):
    A = A.copy()
    A.shape = (4, 3)
    A[0, 0] = 9
    return A


@case(A)
def shapes_of_two_names(A):
    b = A.copy()
    c = b
    b.shape = -1, 2
    b.shape = (2, b.size // 2)
    c[1, 0] = 9
    return c, b.T, len(b)


@case(A)
def shape_in_a_loop(A):
    total = 0.0
    for k in range(20):
        row = A[k % len(A)] * 2
        row.shape = (-1, 1)
        row[0, 0] = k
        total += row.sum()
    return total


@case(A)
def shape_behind_a_view(A):
    b = A.copy()
    c = b[0]
    b.shape = (-1,)
    return b, c


@case(A)
def shape_of_an_argument(A):
    A.shape = (-1,)
    return A


@case(np.array(3.0))
def zerod(x):
    x[...] = 5


@case(X, 3)
def iadd_arg_name(x, n):
    y = x
    y += 1
    for i in range(n):
        y += 1
    return y


@case(X, 3)
def arr_reassigned_same(x, n):
    y = np.zeros(3)
    out = np.zeros((3, 3))
    for i in range(n):
        y = y + 1
        out[i] = y
        y[0] = 0
    return out, y


@case(3, X)
def callee_write(n, x):
    def upd(a, i):
        a[i] = a[i - 1] + 1

    for i in range(1, n):
        upd(x, i)


@case(X, 1e-3)
def testwrites(x, tol):
    def relax(u):
        u *= 0.5
        return abs(u).max()

    k = 0
    while relax(x) > tol:
        k += 1
    return k
