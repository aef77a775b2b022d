"""Branches, conditional expressions, and what decides them."""

import functools

import numpy as np

from tests.plain.constructs.case import X, case


@case(X, 3)
def idx_modified(x, n):
    s = 0
    for i in range(n):
        i = i * 2
        s += i
    return s, i


@case(True, X)
def boolarg(b, x):
    if b:
        return x * 2
    return x


@case(X)
def ternary(x):
    return [x[i] if x[i] > 0 else -x[i] for i in range(3)]


@case(2.0, 3.0)
def andor(a, b):
    return (a and b), (a or b), (not a), (a > 1 and b > 5), (a > 5 or b)


@case(0.0, 3.0)
def andor0(a, b):
    return (a and b), (a or b), (not a)


@case(X)
def shortcircuit(x):
    i = 0
    while i < len(x) and x[i] != 100:
        i += 1
    return i


@case(X, 4.0)
def inlist(x, t):
    return t in (1.0, 4.0), t in [1.0, 2.0], t not in (4,), (x[0] in x)


@case(X)
def inarr(x):
    return 7.0 in x, 8.0 in x


@case(X)
def isinst(x):
    return (
        (1.0 if isinstance(x, np.ndarray) else 0.0),
        (1.0 if isinstance(x[0], float) else 0.0),
        (1.0 if type(x) is np.ndarray else 0.0),
        len(x),
        (1.0 if hasattr(x, "__len__") else 0.0),
    )


@case(X, 2.0, 3)
def attributes_asked_for(x, s, n):
    """Of an array, of its element, of Python's numbers."""
    values, names = (x, x[0], s, n), ("__len__", "__iter__", "shape", "tolist", "is_integer", "bit_length", "absent")
    sizes = [getattr(v, "size", 7) for v in values]
    return [1.0 if hasattr(v, name) else 0.0 for v in values for name in names], sizes, s + x[0]


@functools.singledispatch
def kind(value):
    return 0.0


@kind.register
def _(value: np.ndarray):
    return np.sum(value)


@kind.register(int)
@kind.register(float)
def _of_number(value):
    return value + 1 if value > 2 else value


@case(X, 2.0, 3)
def single_dispatch(x, s, n):
    return kind(x), kind(s), kind(x[1]), kind("text"), s * 2


@case(X)
def mult_ret(x):
    if x[0] > 100:
        return 1.0
    elif x[1] > 100:
        return 2.0
    elif x[2] > 1:
        return 3.0
    return 4.0


@case(X)
def const_bool(x):
    done = False
    i = 0
    while not done:
        i += 1
        if x[i] > 4:
            done = True
    return i


@case(X)
def flagbranch(x):
    found = False
    for v in x:
        if v == 7:
            found = True
    if found:
        return 1.0
    return 0.0


@case(X)
def ifsize(x):
    n = len(x)
    if n * 0.5 > 3:
        return x * 2
    return x


@case(X, 3)
def bool_sum(x, n):
    c = 0
    for v in x:
        c += v > 0
    return c


@case(X, 3)
def chain_cmp(x, n):
    c = 0
    for v in x:
        if 0 < v <= 3 != 2:
            c += 1
    return c


@case(X, 3)
def notin(x, n):
    c = 0
    for i in range(len(x)):
        if i not in (2, 5) and not (x[i] > 3 or x[i] < -1):
            c += i
    return c


@case(X, 3)
def return_none_loop(x, n):
    for i in range(n):
        if x[i] > 4:
            return
        x[i] = 0


@case(True)
@case(False)
def boolsize(b):
    s = 0
    for i in range(b):
        s += 1
    return s


@case(X)
def none_default(x):
    best = None
    for i in range(3):
        if best is None or x[i] > best:
            best = x[i]
    return best


@case(X)
def none_default_dyn(x):
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    return best


@case(X)
def string_flag(x):
    mode = "a"
    for i in range(len(x)):
        if x[i] > 4:
            mode = "b"
    return x


@case(X)
def mixed_return(x):
    def f(y):
        if y > 2:
            return 1
        return 0.5

    s = 0.0
    for v in x:
        s += f(v)
    return s


@case(X)
def fstring(x):
    for i in range(3):
        name = f"{i}"
    return x * int(name)


@case(X)
def cond_lists(x):
    if x[0] > 0:
        l = [x, x * 2]
    else:
        l = [x * 3, x * 4]
    return l[0], l[1]


@case(X)
def cond_lists_mismatch(x):
    if x[0] > 0:
        l = [x, x * 2]
    else:
        l = [x * 3]
    return l[0]
