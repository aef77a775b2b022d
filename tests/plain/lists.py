"""Functions that collect results in lists, as people write them."""

import numpy as np

# --- one program for all sizes -------------------------------------------------------------------------------------


def squares(x):
    out = []
    for i in range(len(x)):
        out.append(x[i] ** 2 + i)
    return np.array(out)


def comprehension(x):
    return np.array([v * 2 for v in x])


def generators(x):
    mean = sum(x) / len(x)
    var = sum((v - mean) ** 2 for v in x) / (len(x) - 1)
    return mean, var**0.5, max(abs(v) for v in x), min([x[i] * x[-i] for i in range(len(x))])


def positive(x):
    out = []
    for v in x:
        if v > 0:
            out.append(np.sqrt(v))
    return np.array(out).sum(), len(out)


def positive_comprehension(x):
    kept = [v**2 for v in x if v > 0.0]
    at = [i for i, v in enumerate(x) if v > 0]
    return sum(kept), np.array(at), np.array(kept)


def joined(x):
    rows = []
    for i in range(len(x)):
        rows.append(x * i)
    return (
        np.stack(rows), np.stack(rows, axis=1), np.vstack(rows), np.hstack(rows), np.concatenate(rows),
        np.column_stack(rows), np.concatenate(rows, axis=None), np.array(rows).sum(axis=0),
    )  # fmt: skip


def joined_matrices(x):
    rows = []
    for i in range(len(x)):
        rows.append(np.outer(x[:2], x[:3]) + i)
    return np.vstack(rows), np.hstack(rows), np.concatenate(rows, axis=1), np.concatenate(rows, 0), np.stack(rows, -1)


def reduced(x):
    found = []
    for i in range(len(x)):
        found.append(x[i])
    return (
        np.vstack(found), np.hstack(found), np.column_stack(found), np.mean(found), np.sin(found), np.array(found) * 2,
        np.std(found), np.max(found), np.median(found), np.cumsum(found), np.dot(found, x),
    )  # fmt: skip


def recurrence(x):
    y = [x[0], x[1]]
    for k in range(2, len(x)):
        y.append(y[k - 1] * 0.5 + y[k - 2] * 0.25 + x[k])
    return y[len(x) // 2], y[-1], y


def fibonacci(x):
    found = [1, 1]
    for _ in range(len(x)):
        found.append(found[-1] + found[-2])
    return np.array(found), found[-1], len(found)


def time_steps(x):
    times, states = [0.0], [x[0]]
    t, y, dt = 0.0, x[0], 0.1
    for _ in range(len(x) * 2):
        y = y + dt * (-y + np.sin(t))
        t = t + dt
        times.append(t)
        states.append(y)
    return np.array(times), np.array(states)


def of_tuples(x):
    found = []
    for i in range(len(x)):
        found.append((i, x[i], x[i] > 0))
    total = 0.0
    for i, v, positive in found:
        if positive:
            total += v * i
    return np.array([item[1] for item in found]), total, found[2][1], found[-1][0]


def pairs(x):
    found = []
    for i, v in enumerate(x):
        found.append((i, v * 2))
    return np.array(found)


def of_dicts(x):
    out = []
    for v in x:
        out.append({"v": v, "s": v * v})
    return np.array([q["s"] for q in out])


def of_lists(x):
    found = []
    for v in x:
        found.append([v, 2 * v])
    return np.array(found), found[0], [[v, v + 1] for v in x][-1]


def of_no_turns(x):
    rows = []
    for v in x[:4]:
        rows.append((v, v * 2))
    if len(rows) == 0:
        return 0.0
    return rows[0]


def nested(x):
    rows = []
    for i in range(len(x)):
        row = []
        for k in range(len(x)):
            row.append(x[i] - x[k])
        rows.append(row)
    return np.array(rows)


def nested_comprehensions(x):
    rows = [[abs(a - b) for b in x] for a in x]
    zeros = [[0.0 for j in range(len(x))] for i in range(len(x))]
    return np.array(rows).max(), np.array(zeros)


def triangle(x):
    out = []
    for i in range(len(x)):
        for k in range(i):
            out.append(x[i] * x[k])
    return np.array(out)


def windows(x):
    return np.array([x[i : i + 3].mean() for i in range(len(x) - 2)])


def returned(x):
    out = []
    for v in x:
        out.append(v + 1)
    return out


def two_lists(x):
    even, odd = [], []
    for i in range(len(x)):
        if i % 2 == 0:
            even.append(x[i])
        else:
            odd.append(x[i] * 2)
    return np.array(even).sum() - np.array(odd).sum()


def copies(x):
    states = []
    y = x.copy()
    for _ in range(len(x)):
        y += 1
        states.append(y.copy())
    return np.array(states)


def left_early(x):
    found = []
    for i in range(len(x)):
        if x[i] < -2:
            continue
        if x[i] > 2:
            break
        found.append(x[i])
    return np.array(found), len(found)


def until_small(x):
    sums = []
    y = x
    for turn in range(30):
        y = y * 0.8
        total = np.abs(y).sum()
        sums.append(total)
        if total < 0.3:
            break
    return np.array(sums), turn


def capped(x):
    errors = []
    y, turn = x, 0
    while turn < 40 and np.abs(y).max() > 0.05:
        y = y * 0.7
        errors.append(np.abs(y).max())
        turn += 1
    return np.array(errors), turn


def capped_by_its_length(x):
    found = []
    y = x
    while np.abs(y).max() > 0.1 and len(found) < 50:
        found.append(np.abs(y).max())
        y = y * 0.5
    return found[-1], len(found), np.array(found)


def as_long_as_another(x):
    found = [x[0]]
    while len(found) < len(x):
        found.append(found[-1] * 0.5 + 1)
    return np.array(found)


def left_by_break(x, most=50, tolerance=1e-3):
    history = []
    k = 0
    y = x.copy()
    while True:
        mean = y.mean()
        y = (y - mean) * 0.5 + mean
        history.append(y.var())
        k += 1
        if history[-1] < tolerance or k > most:
            break
    return np.array(history)


def appended_arrays(x):
    found = np.zeros(0)
    k = 0
    while k < len(x) and x[k] < 3:
        if x[k] > 0:
            found = np.append(found, x[k])
        k += 1
    return found


def in_a_helper(x):
    found = []

    def collect(v, items):
        items.append(v * 2)

    for v in x:
        collect(v, found)
    return np.array(found)


def in_a_dict(x):
    found = {"a": [], "b": []}
    for v in x:
        found["a"].append(v)
        found["b"].append(v * 2)
    return np.array(found["a"]) + np.array(found["b"])


def two_names(x):
    a = []
    b = a
    for v in x:
        a.append(v)
    return len(b) + 0.0, np.array(b)


def parts(x):
    found = []
    for i in range(len(x)):
        found.append(x[i:].sum())
    rest = found[1:]
    found.append(99.0)
    return np.array(rest), found[::2], np.array(found)[::-1]


def appended_behind_the_loop(x):
    out = []
    for i in range(len(x)):
        if x[i] > -99:
            out.append(x[i])
    out.append(5.0)
    out.append(x[0])
    return np.array(out), len(out), out


def one_after_another(x):
    out = []
    y = abs(x)
    for i in range(len(x)):
        if y[i] >= 0:
            out.append(y[i])
        if y[i] >= 0:
            out.append(y[i] * 2)
    for i in range(len(x)):
        if y[i] >= 0:
            out.append(y[i] + len(out))
    return out


def zipped(x):
    a = []
    for v in x:
        a.append(v)
    b = []
    for u, w in zip(a, x):
        b.append(u * w)
    c = [p + q for p, q in zip(a, b)]
    return np.dot(a, b), np.array(c) @ np.array(a)


def counted_inside(x):
    out = []
    n = 0
    for v in x:
        out.append(np.array([v, v + 1]))
        n += len(out)
    return np.array(out), n


# --- Python's own list is needed: right, with a program for each size ----------------------------------------------


def one_array_in_all_items(x):
    states = []
    y = x.copy()
    for _ in range(len(x)):
        y += 1
        states.append(y)
    return np.array(states)


def written_behind(x):
    states = []
    y = x
    for _ in range(len(x)):
        y = y * 0.9
        states.append(y)
    y[0] = 100
    return np.array(states)


def written_behind_the_append(x):
    out = []
    for i in range(len(x)):
        y = x * i
        out.append(y)
        y[0] = 7
    return np.array(out)


def items_set(x):
    out = []
    for i in range(len(x)):
        out.append(None)
        out[i] = x[i]
    return np.array(out)


def popped(x):
    out = []
    for i in range(len(x)):
        out.append(x[i])
        out.append(-x[i])
        out.pop()
    return np.array(out)


def lists_of_a_list(x):
    found = [[] for _ in range(3)]
    for i in range(len(x)):
        found[i % 3].append(x[i])
    return [len(r) + 0.0 for r in found]


def texts(x):
    out = []
    for i in range(len(x)):
        out.append("s" if i < 2 else "t")
    return float(len(out)) + x[0]


def used_as_an_index(x):
    out = []
    for i in range(len(x)):
        out.append(i)
    return x[out]


def of_two_types(x):
    out = []
    for i in range(len(x)):
        out.append(i)
        out.append(x[i])
    return np.array(out)


def summed_lists(x):
    a = []
    for v in x:
        a.append(v)
    return np.array(a + [1.0]), np.array([*a, 2.0])


def written_rows(x):
    rows = [[0.0] * len(x) for _ in range(len(x))]
    for i in range(len(x)):
        for j in range(len(x)):
            rows[i][j] = x[i] * x[j]
    return np.array(rows)


def rows_that_grow(x):
    rows = []
    for i in range(len(x)):
        rows.append([x[i], 1.0])
    for row in rows:
        row.append(3.0)
    return rows


def written_through_another_name(x):
    rows = []
    for i in range(len(x)):
        row = [x[i], 0.0]
        rows.append(row)
        row[1] = 2.0
    last = rows[-1]
    last[0] = 77.0
    return rows


def shared_row(x):
    rows, row = [], [0.0, 0.0]
    for _ in range(len(x)):
        rows.append(row)
    row[0] = 9.0
    return np.array(rows)


def written_dict(x):
    rows = []
    for i in range(len(x)):
        rows.append({"v": x[i]})
    rows[0]["v"] = 5.0
    return np.array([row["v"] for row in rows])


def written_arrays(x):
    rows = [np.zeros(3) for _ in range(len(x))]
    for i in range(len(x)):
        rows[i][0] = x[i]
    for row in rows:
        row += 1
    return np.array(rows)


def without_axes(x):
    sums, total = [], np.array(0.0)
    for v in x:
        total += v
        sums.append(total)
    return np.array(sums)


def views_without_axes(x):
    found, y = [], x.copy()
    for i in range(len(x)):
        found.append(y[i : i + 1].reshape(()))
        y[i] = 0.0
    return np.array(found)


def swallowed(x):
    found = []
    for v in x:
        found.append(v)
    try:
        found.pop()
    except:  # noqa: E722
        found = [1.0]
    return found


def returned_after_a_write(x):
    rows = []
    y = x
    for _ in range(len(x)):
        y = y * 0.5
        rows.append(y)
    y[0] = 100
    return rows


def summed_rows(x):
    return sum([[v, v] for v in x], []), sum((v for v in x), start=3.0)


def identities(x):
    rows = []
    for _ in range(len(x)):
        rows.append(x)
    one = rows[0] is rows[-1], rows[0] is x
    return float(type(rows) is list), float(isinstance(rows, list)), float(all(one)), float(rows[0] is None)


STACKED = [
    squares, comprehension, generators, positive, positive_comprehension, joined, joined_matrices, reduced, recurrence,
    fibonacci, time_steps, of_tuples, pairs, of_lists, nested, nested_comprehensions, triangle, windows, returned,
    two_lists, copies, left_early, until_small, capped, capped_by_its_length, as_long_as_another, left_by_break,
    appended_arrays, in_a_helper, in_a_dict, two_names, parts, appended_behind_the_loop, one_after_another, zipped,
    counted_inside,
]  # fmt: skip
OF_PYTHON = [
    one_array_in_all_items, written_behind, written_behind_the_append, items_set, popped, lists_of_a_list, texts,
    used_as_an_index, of_two_types, summed_lists, of_dicts, written_rows, rows_that_grow, written_through_another_name,
    shared_row, written_dict, written_arrays, without_axes, views_without_axes, swallowed, returned_after_a_write,
    summed_rows, identities, of_no_turns,
]  # fmt: skip
