"""Loops: what they go over, how they end, and what names hold after them."""

import numpy as np

from tests.plain.constructs.case import X, case


@case(X, 0)
@case(X, 3)
@case(X, 12)
def after_loop(x, n):
    i = -1
    for i in range(n):
        pass
    return i


@case(X, 3)
def after_loop2(x, n):
    for i in range(n):
        s = x[i]
    return s


@case(3.0)
def zero_turn(x):
    s = x
    for i in range(0):
        s = s + 1
    else:
        s = s * 2
    return s


@case(X)
def walrus(x):
    s = 0.0
    i = 0
    while (v := x[i]) != 7:
        s += v
        i += 1
    return s, v


@case(X)
def walrus_for_a_turn(x):
    s = 0.0
    i = 0
    while (v := x[i]) != 7:
        s += v
        i += 1
    return s


@case(X)
def walruses_for_turns_of_turns(x):
    s = 0.0
    for j in range(3):
        i = j
        while (v := x[i]) != 7 and i < 6:
            k = 0
            while (w := v - k) > 0.5:
                s += w * 0.5
                k += 1
            i += 1
    return s


@case(X)
def ordered(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] < 0:
            continue
        if x[i] > 8:
            break
        s += x[i]
    else:
        s = -1.0
    return s


@case(X[:5])
def forelse(x):
    s = 0.0
    for v in x:
        if v > 8:
            break
        s += v
    else:
        s = -1.0
    return s


@case(X)
def whileelse(x):
    i = 0
    while i < len(x):
        if x[i] == 7:
            break
        i += 1
    else:
        return -1
    return i


@case(X, 7.0)
@case(X, 70.0)
def whileelse2(x, t):
    i = 0
    while i < len(x):
        if x[i] == t:
            break
        i += 1
    else:
        i = 100
    return i


@case(X)
def nested_break(x):
    c = 0
    for i in range(len(x)):
        for j in range(len(x)):
            if x[j] > x[i]:
                break
            if j == 5:
                continue
            c += 1
        else:
            c += 100
            continue
        if c > 20:
            break
    return c, i, j


@case(X)
def ret_nested(x):
    for i in range(len(x)):
        for j in range(i):
            if x[i] + x[j] == 9:
                return i, j
    return -1, -1


@case(X)
def retwhile(x):
    i = 0
    while True:
        if x[i] > 6:
            return i
        i += 1


@case(X)
def typechange(x):
    s = 0
    for i in range(len(x)):
        s = s + i
        if x[i] > 3:
            s = s * 0.5
    return s


@case(X)
def typechange2(x):
    s = None
    for i in range(len(x)):
        if s is None:
            s = x[i]
        else:
            s = s + x[i]
    return s


@case(X)
def ziprev(x):
    s = 0.0
    for a, b in zip(x, reversed(x)):
        s = s * 0.5 + a * b
    return s


@case(X)
def revenum(x):
    s = 0.0
    for a, (b, c) in enumerate(zip(x, x[::-1])):
        s = s * 0.5 + a * b - c
    return s


@case(-3)
def neg_range(n):
    s = 0
    for i in range(n):
        s += i
    for i in range(0, n, -1):
        s += i
    return s


@case(5, X)
def sizeret(n, x):
    y = np.zeros(n)
    return n, y


@case(X)
def augidx(x):
    h = np.zeros(3)
    for i in range(len(x)):
        h[i % 3] += x[i]
        h[0], h[1] = h[1], h[0]
    return h


@case(X)
def unpack(x):
    a, b, *c = x
    return a, b, c[0]


@case(X)
def whilefalse(x):
    while x[0] > 100:
        y = 3.0
        x = x * y
    return x


@case(X)
def maxiter(x):
    for it in range(1000):
        x = x * 0.5
        if abs(x).max() < 1e-3:
            break
    return it, x


@case(X)
def loop_in_branch_in_loop(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0:
            k = 0
            while k < x[i]:
                if k == 2:
                    k += 2
                    continue
                for j in range(k):
                    s += j
                k += 1
        else:
            for j in range(i):
                if j == 3:
                    break
                s -= x[j]
    return s


@case(X)
def lastitem(x):
    for v in x:
        pass
    return v


@case(X)
def append_dyn(x):
    out = []
    for v in x:
        if v > 0:
            out.append(v)
    return np.array(out)


@case(X)
def append_all(x):
    out = []
    for v in x:
        out.append(v * 2)
    return np.array(out)


@case(X)
def builtin_sum(x):
    return sum(x), max(x), min(x), abs(x[1]), round(x[0], 1)


@case(X)
def walrus_inc(x):
    i = -1
    s = 0.0
    while x[(i := i + 1)] != 7:
        s += x[i]
    return i, s


@case(X)
def whilesize(x):
    n = len(x)
    k = 0
    while n > 1:
        n //= 2
        k += 1
    return k, n


@case(X)
def while_cont(x):
    i = 0
    s = 0.0
    while i < len(x):
        i += 1
        if x[i - 1] < 0:
            continue
        s += x[i - 1]
    return s, i


@case(X, 0)
def zero_arr(x, n):
    y = np.zeros(n)
    for i in range(n):
        y[i] = x[i]
    return y


@case(np.zeros(0))
def empty_iter(x):
    s = 1.0
    for v in x:
        s += v
    for i, v in enumerate(x):
        s += i
    return s


@case(X, 3)
def nested_def_loopvar(x, n):
    fs = 0.0
    for i in range(n):

        def g(v):
            return v * i

        fs += g(x[i])
    return fs


@case(X, 3)
def comp_in_loop(x, n):
    s = 0.0
    for i in range(n):
        s += sum([x[j] * i for j in range(3)])
    return s


@case(X, 3)
def float_range(x, n):
    s = 0.0
    t = 0.0
    while t < 1.0 - 1e-9:
        s += x[int(t * 10)]
        t += 0.1
    return s


@case(X, 3)
def tuple_ret_in_loop(x, n):
    a, b = 1, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@case(X)
def deepdyn(x):
    t = 0
    n = len(x)
    for i in range(n):
        for j in range(n):
            for k in range(n):
                if k == 3:
                    break
                if j == 2:
                    continue
                t += i * j * k
            else:
                t += 1000
        if i == 5:
            break
    return t


@case(X)
def while_true_nobreak_return(x):
    k = 0
    while True:
        k += 1
        for i in range(k):
            if x[i] > 4:
                return k, i


@case(X)
def cumprod(x):
    p = 1
    for v in x:
        p *= v
    return p


@case(X)
def stepneg(x):
    s = 0.0
    for i in range(len(x) - 1, 0, -2):
        s = s * 0.5 + x[i]
    return s


@case(X, -1)
@case(X, 2)
@case(X, -3)
def stepvar(x, st):
    s = 0.0
    for i in range(10, 0, st):
        s = s * 0.5 + x[i]
    for i in range(0, 10, st):
        s = s * 0.5 + x[i]
    return s


@case(X, 2, 9)
@case(X, 9, 2)
@case(X, -4, 3)
def bounds(x, a, b):
    s = 0.0
    for i in range(a, b):
        s = s * 0.5 + x[i] + i
    return s


@case(X)
def valbounds(x):
    s = 0.0
    for i in range(int(x[0]), int(x[3]) + 2):
        s = s * 0.5 + x[i] + i
    return s, i


@case(X)
def loop_dtype_promote(x):
    s = np.float32(0)
    for v in x:
        s = s + v
    return s


@case(X)
def pass_through(x):
    for v in x:
        pass
    else:
        x = x + 1
    return x


@case(X)
def continue_only(x):
    s = 0.0
    for v in x:
        if v > 0:
            s += v
            continue
        if v == 0:
            break
        s -= v
    return s


@case(X, 9)
def read_by_the_next_range(x, n):
    """The inner loop's own bound is what its last turns have left."""
    m, s = 1, 0
    for i in (3, 2, 4):
        for j in range(m, n):
            m = i
            s += 1
    return s


@case(X, 9)
def range_of_its_own_counter(x, n):
    m, s = 1, 0
    for i in range(n):
        for m in range(m % 4, 5):
            s += 1
    return s, m


@case(X, 6)
def array_iterated_next(x, n):
    w, s = x, 0.0
    for i in range(n):
        for q in w:
            w = x * 0.5
            s += q
    return s


@case(X, 6)
def count_left_by_an_inner_loop(w, n):
    s, m = 0.0, 1
    for i in range(0, n, 2):
        y = w[w != 1]
        s += 0.125 * y.sum()
        for j in range(m % 3, 5):
            for q in w:
                m = len(w[w != w]) % 3
                s += 0.5
            s += 1.0
    return s


@case(X, 3, 0.0)
@case(X, 3, 100.0)
@case(X, 100, 2.0)
def jumps_in_the_else_of_a_named_condition(x, n, least):
    s = 0.0
    for i in range(5):
        c = 0
        while (c := c + 1) < n:
            if x[c % len(x)] > least:
                break
            s += 0.125
        else:
            if x[0] != s and i > 2:
                break
            s += c
            if x[i] != s:
                continue
        s = 0.5 * s + c
    return s, c, i
