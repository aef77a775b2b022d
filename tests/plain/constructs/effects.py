"""Functions inside of functions, attributes, globals, exceptions, classes: what Python does beside computing."""

import numpy as np

from tests.plain.constructs.case import GL, LOG, G, X, case


class Thing:
    """Something with attributes."""


@case(X)
def shadow(x):
    range = lambda n: [5, 6]
    s = 0
    for i in range(3):
        s += i * x[0]
    return s


@case(X)
def shadow2(x):
    len = lambda v: 3
    s = 0.0
    for i in range(len(x)):
        s += x[i]
    return s


@case(X)
def closure_aug(x):
    c = 0.0

    def add(v):
        nonlocal c
        c += v

    for i in range(len(x)):
        add(x[i])
    return c


@case(X)
def closure_aug_branch(x):
    c = 0.0

    def add(v):
        nonlocal c
        c += v

    if x[0] > 0:
        add(x[1])
    else:
        add(x[2])
    return c


@case(X)
def attr(x):
    o = Thing()
    o.s = 0.0
    for i in range(len(x)):
        o.s += x[i]
    return o.s


@case(X)
def attr_branch(x):
    o = Thing()
    o.s = 0.0
    if x[0] > 0:
        o.s = x[1]
    return o.s


@case(X)
def dict_loop(x):
    d = {"s": 0.0}
    for i in range(len(x)):
        d["s"] += x[i]
    return d["s"]


@case(X)
def list_elem(x):
    l = [0.0, 1.0]
    for i in range(len(x)):
        l[0] = l[0] + x[i]
    return l[0]


@case(X)
def global_array(x):
    for i in range(4):
        G[i] = 3
    return x + G[0]


@case(X)
def global_array_dyn(x):
    for i in range(len(x)):
        G[0] += 1
    return x + G[0]


@case(X)
def global_list(x):
    GL.clear()
    for i in range(len(x)):
        GL.append(1)
    return x * len(GL)


@case(X)
def enum_start(x):
    s = 0.0
    for i, v in enumerate(x, 5):
        s += i * v
    return s


@case(5)
def rec(n):
    def fact(k):
        return 1 if k <= 1 else k * fact(k - 1)

    return fact(5) * n


@case(2.0)
def lam(x):
    g = lambda y: y * 2 if y > 1 else y
    return g(x) + (lambda z: z if z < 0 else -z)(x)


@case(X)
def defaults(x, k=3, *, w=2.0):
    s = 0.0
    for i in range(k):
        s += w * x[i]
    return s


@case(X)
def starargs(x):
    def f(*a, **k):
        return a[0] + k["b"]

    return f(*[x], **{"b": 1.0})


@case(X)
def delname(x):
    y = x * 2
    for i in range(len(x)):
        t = x[i]
        del t
    return y


@case(X)
def tryexc(x):
    try:
        s = 0.0
        for i in range(len(x)):
            s += x[i]
    except ValueError:
        s = -1.0
    return s


@case(X)
def tryfin(x):
    s = 0.0
    try:
        for i in range(len(x)):
            if x[i] > 6:
                return s
            s += x[i]
    finally:
        pass
    return -s


@case(X)
def withst(x):
    with np.errstate(all="ignore"):
        for i in range(len(x)):
            if x[i] == 0:
                return i
    return -1


@case(X)
def gen(x):
    return sum(v for v in x if True)


def helper_log(v):
    LOG.append(1)
    return v


@case(X)
def glob_helper(x):
    s = 0.0
    for i in range(len(x)):
        s += helper_log(x[i])
    return s


@case(X)
def nonlocal_count(x):
    n = 0

    def bump():
        nonlocal n
        n += 1

    for i in range(len(x)):
        if x[i] > 0:
            bump()
    return n


@case(X)
def nonlocal_passed(x):
    n = 0

    def bump(v):
        nonlocal n
        n += 1
        return v

    def run(f):
        s = 0.0
        for v in x:
            s += f(v)
        return s

    return run(bump), n


class B:
    def step(self, x):
        return x + 1


class C(B):
    def step(self, x):
        for i in range(3):
            x = super().step(x)
        if x[0] > 0:
            x = super().step(x)
        return x


@case(X)
def sup(x):
    return C().step(x)


class P:
    def __init__(self):
        self.__s = 2.0

    def go(self, x, __n=3):
        def f(__v):
            return __v * self.__s

        for i in range(9):
            x = f(x)
        return x


@case(X)
def priv(x):
    return P().go(x)


@case(X)
def lam2(x):
    fs = [lambda y: y + 1 if y > 0 else y - 1, lambda y: y * 2 if y > 0 else y * 3]
    return fs[0](x[0]), fs[1](x[1])


@case(X)
def lam_nested(x):
    f = lambda a: lambda b: b if b > a else a
    return f(x[0])(x[1])


@case(X)
def try_float(x):
    try:
        n = float(x[0])
    except TypeError:
        n = -100.0
    return n * x


@case(X)
def for_var_shadow_outer(x):
    i = 100
    for i in range(3):
        for i in range(10, 14):
            pass
    return i


@case(X, 3)
def late_binding(x, n):
    k = 1.0
    f = lambda v: v * k
    s = 0.0
    for i in range(n):
        k = k + 1
        s += f(x[i])
    return s


@case(X, 3)
def star_target(x, n):
    s = 0.0
    for i, (a, *b) in enumerate([(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)]):
        s += a * b[0] * b[1] * x[i]
    return s


@case(X, 3)
def attr_target(x, n):
    o = Thing()
    for o.v in x:
        pass
    return o.v


@case(X, 3)
def matchst(x, n):
    match n:
        case 3:
            return x * 3
        case _:
            return x


@case(X, 3)
def assert_(x, n):
    assert x.ndim == 1, "bad"
    return x


@case(X, 3)
def raise_static(x, n):
    if x.ndim != 1:
        raise ValueError("dim")
    return x


@case(X, 3)
def raise_user(x, n):
    for i in range(n):
        raise KeyError("mine")


@case(X, 30)
def raise_user2(x, n):
    for i in range(n):
        undefined_name + 1  # noqa: F821


@case(X, 3)
def raise_traced(x, n):
    for i in range(n):
        if x[i] > 100:
            raise ValueError("big")
    return x


@case(X, 3)
def yielding(x, n):
    def g():
        for i in range(3):
            yield x[i]

    return sum(g())


@case(X, 3)
def np_scalar_start(x, n):
    s = np.int64(0)
    for v in x:
        s = s + v
    return s


@case(X)
@case(-X)
def cell_branch(x):
    n = 0

    def bump():
        nonlocal n
        n += 1

    if x[0] > 0:
        bump()
    return n


@case(X, 3)
def recursion(x, n):
    def f(k):
        return x.sum() if k == 0 else f(k - 1) * 0.5

    return f(3)


@case(X)
def dict_loop_static(x):
    w = {"a": 1.0, "b": 2.0}
    s = 0.0
    for k, v in w.items():
        s += v * x[0]
    return s


@case(X)
def in_dict(x):
    w = {"a": 1.0}
    return x * (w["a"] if "a" in w else 0.0)


@case(X)
def nested_fn_return_in_loop(x):
    def first(y, t):
        for i in range(len(y)):
            if y[i] > t:
                return y[i]
        return -1.0

    s = 0.0
    for t in range(10):
        s += first(x, t)
    return s


@case(X)
def ann(x):
    s: float = 0.0
    for v in x:
        t: float = v
        s += t
    return s


@case(X)
def starred_call(x):
    def f(a, b, c=1.0):
        return a + b * c

    s = 0.0
    for i in range(len(x) - 1):
        s += f(*(x[i], x[i + 1]), **{"c": 2.0})
    return s
