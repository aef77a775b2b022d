"""Numbers, sizes, indices and types of what is computed."""

import numpy as np

from tests.plain.constructs.case import X, case


@case(X)
def listcomp(x):
    return sum([x[i] ** 2 for i in range(len(x)) if i % 2])


@case(X)
def minmaxs(x):
    m = x[0]
    k = 0
    for i, v in enumerate(x):
        if v > m:
            m, k = v, i
    return m, k


@case(X, 5)
@case(X, 0)
@case(X, 12)
@case(X, -3)
def slicing(x, n):
    return x[:n].sum(), x[n:].sum()


@case(3)
def zer(n):
    return np.zeros(n) + 1


@case(np.int32(5), X)
def npint(n, x):
    s = 0.0
    for i in range(n):
        s += x[i]
    return s * n


@case(5, X)
def sizefloat(n, x):
    h = 1.0 / n
    return h * x, n * x, n / 2, n // 2, n**2, n % 3, -n, float(n), n * 1.5


@case(X)
def anyall(x):
    return any(v > 8 for v in [1.0, 9.0]), x


@case(X)
def print_in(x):
    for i in range(2):
        pass
    return x


@case(X)
def strfmt(x):
    n = 0
    for name in ("a", "b", "c", "d", "e", "f", "g", "h", "i", "j"):
        if name == "e":
            break
        n += 1
    return n + x


@case(X)
def arr_of_lists(x):
    rows = []
    for i in range(3):
        rows.append([x[i], x[i + 1]])
    return np.array(rows)


@case(X)
def sortedx(x):
    return sorted(x)


@case(7)
def divm(n):
    q, r = divmod(n, 3)
    return q, r


@case(X)
def pow_(x):
    s = 0
    for i in range(len(x)):
        s += 2**i
    return s


@case(X)
def negpow(x):
    s = 0.0
    for i in range(len(x)):
        s += 2.0**-i
    return s


@case(X)
def intdiv(x):
    s = 0
    for i in range(len(x)):
        s += int(x[i]) // 2 + int(-x[i]) % 3
    return s


@case(X)
def cplx(x):
    z = 0j
    for v in x:
        z = z * 1j + v
    return z, z.real, abs(z)


@case(X)
def int_overflow(x):
    n = 1
    for i in range(20):
        n *= 3
    return n


@case(np.array([200, 100], np.uint8))
def u8(x):
    s = x[0]
    for i in range(9):
        s = s + x[1]
    return s


@case(np.array([200, 100], np.uint8))
def u8aug(x):
    s = 0
    for v in x:
        s += v
    return s


@case(np.float32(3.0), X.astype(np.float32))
def f32(a, x):
    s = 0.0
    for v in x:
        s += v * a
    return s


@case(X)
def builtins_(x):
    return sum(x), max(x), min(x)


@case(X)
def builtins2(x):
    return (1.0 if any(x) else 0.0), (1.0 if all(x) else 0.0), sum(x, 5.0)


@case(X)
def roundx(x):
    return round(x[0] * 0.33, 1), abs(x[1]), divmod(x[0], 2.0), pow(x[0], 2)


@case(X)
def cont_else(x):
    s = 0
    for i in range(len(x)):
        if x[i] > 0:
            continue
        else:
            s += 1
        s += 10
    return s


@case(X, 3)
def subs_target(x, n):
    y = np.zeros(3)
    for y[1] in range(n):
        pass
    for i, y[0] in enumerate(x):
        pass
    return y


@case(X, 3)
def int_of(x, n):
    k = int(x[3])
    return x[k], x[:k].sum()


@case(X, 3)
def neg_index(x, n):
    s = 0.0
    for i in range(1, n + 1):
        s += x[-i]
    return s


@case(X.astype(np.float32), np.float32(2))
def dtype_keep(x, a):
    s = np.float32(0)
    for v in x:
        s = s + v * a
    return s


@case(np.arange(5), 2)
def int_acc_float(x, n):
    y = np.zeros(5, dtype=int)
    for i in range(5):
        y[i] = x[i] / 2
    return y


@case(5)
def size_and_value(n):
    x = np.zeros(n)
    for i in range(n):
        x[i] = i / n + n
    return x


@case(-2)
@case(0)
@case(3)
def neg_size_mix(n):
    s = 0
    for i in range(n):
        s += i
    return s + n, abs(n)


@case(X)
def tuple_assign(x):
    out = np.empty((12, 2))
    for i, v in enumerate(x):
        out[i, 0], out[i, 1] = v, -v
    return out


@case(X)
def ndim_broadcast(x):
    out = np.zeros((3, 4))
    for i in range(3):
        out[i] = x[i]
    for j in range(4):
        out[:, j] += x[j]
    return out


@case(np.array([1, 2, 3]), 2)
def intpow(x, n):
    s = 0
    for v in x:
        s += v**n
    return s


@case(np.array([250, 3], np.uint8))
def uint_wrap_index(x):
    t = np.zeros(300)
    for v in x:
        t[v] += 1
    return t.sum(), t[250]


@case(5.0, 2)
def floordiv(a, n):
    return a // n, a % n, -a // n, n // 2 - 3 // n


@case(2**40)
def big(n):
    return n * 2 + 1


@case(np.float64(2.5))
def npfloat(a):
    while a < 100:
        a = a * a
    return a


@case(X, slice(1, 5))
def slicearg(x, s):
    return x
