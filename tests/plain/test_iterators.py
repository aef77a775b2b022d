"""Loops over Python's containers and iterators that values leave, as in Python."""

import importlib
import itertools
import linecache
import sys

import numpy as np
import pytest

import zenith
from tests.plain.checks import check_as_in_python
from zenith.errors import TraceError


def _list_of_arrays(x):
    for row in [x, x * 2, x * 4]:
        if row[0] > 3:
            break
    return row


def _dict_of_arrays(x):
    for row in {"a": x, "b": x * 2, "c": x * 4}.values():
        if row[0] > 1:
            break
    else:
        row = x * 0
    return row


def _text(x):
    n = 0
    for _ in "abc":
        n += 1
        if x[0] + n > 2:
            break
    return n


def _count(x):
    y = abs(x[0]) * 100
    for k in itertools.count():  # noqa: B007
        y *= 0.5
        if y < 1:
            break
    return y, k


def _count_in_steps(x):
    n = 0
    for k in itertools.count(1, 2):
        n += k
        if n > x[0] * 40:
            return n
    return None


def _count_beside_an_array(x):
    return sum(k * v for k, v in zip(itertools.count(start=1), x, strict=False))


def _count_to_a_known_end(x):
    rows = []
    for k in itertools.count():
        if k > 3:
            break
        rows.append(x * k)
    return rows


def _next_of_count(x):
    return next(k for k in itertools.count(1) if k * k > x[0] * 40)


def _cycle(x):
    t = 0.0
    for v in itertools.cycle([1.0, 2.0, 3.0]):
        t += v
        if t > x[0] * 40:
            break
    return t


def _cycle_of_an_array(x):
    t, n = 0.0, 0
    for v in itertools.cycle(x):
        t, n = t + abs(v), n + 1
        if t > 40:
            break
    return t, n


def _repeat(x):
    y = abs(x[0]) * 100
    for _ in itertools.repeat(None):
        y *= 0.5
        if y < 1:
            break
    return y


def _enumerate_from_a_number(x, start=3):
    return sum(k * v for k, v in enumerate(x, start + int(x[0])))


def _sorted_by_texts(x):
    return [v for _, v in sorted([("b", x[0]), ("a", x[1])])]


def _sorted_by_prefixes(x):
    return [float(b) for _, b in sorted([(1, x[0]), (1, 0.5), (0, x[1])])]


def _two_lists_of_many(x):
    y, n = abs(x[0]) + 1, 0
    for w, c in zip([1.5] * 210, [0.25] * 210, strict=True):
        y, n = y * w + c, n + 1
        if y > 1e30:
            break
    return n


def _sorted_by_some_numbers(x):
    return sorted([3.0, x[0], x[1]]), sorted([(1, x[0]), (1, x[1]), (0, x[1])])


CASES = [value for name, value in list(globals().items())
         if name.startswith("_") and getattr(value, "__module__", None) == __name__]  # fmt: skip


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("function", CASES)
def test_iterators_are_as_in_python(function, backend):
    check_as_in_python(function, backend)


def test_an_endless_generator_that_values_leave_is_refused():
    def halves(v):
        while True:
            v = v * 0.5
            yield v

    def function(x):
        for v in halves(x[0]):
            if v < 1:
                break
        return v

    with pytest.raises(TraceError, match="items of an iterator") as caught:
        zenith.jit(function)(np.array([40.0]))
    assert caught.value.where.file == __file__


class _Base:
    def __call__(self, x):
        return x + self.offset if x[0] > 0 else x - self.offset


class _Derived(_Base):
    offset = 2.0


def test_an_inherited_call_is_converted():
    model = _Derived()
    for x in (np.array([1.0]), np.array([-1.0])):
        np.testing.assert_array_equal(zenith.jit(model)(x), model(x))
        np.testing.assert_array_equal(zenith.jit(lambda x: model(x))(x), model(x))


def test_a_file_that_was_edited_is_not_taken_for_what_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    text = (
        "from __future__ import annotations\n\ndef half(x):\n    def inner(y):\n        if y[0] > 0:\n"
        "            return y / 2\n        return y\n    return inner(x)\n"
    )
    (tmp_path / "edited_module.py").write_text(text)
    import edited_module  # type: ignore[import-not-found]

    assert zenith.jit(edited_module.half)(np.array([3.0])) == 1.5
    importlib.reload(edited_module)  # functions that have not been converted
    (tmp_path / "edited_module.py").write_text(text.replace("/ 2", "* 2"))
    linecache.checkcache()
    with pytest.raises(TraceError, match="has been changed"):
        zenith.jit(edited_module.half)(np.array([3.0]))
    importlib.reload(edited_module)
    assert zenith.jit(edited_module.half)(np.array([3.0])) == 6.0


def test_no_elements_are_enumerated():
    def program(x):
        total = 0.0
        for index, v in np.ndenumerate(np.zeros((0, 2)) + x[0]):
            total += v + index[0]
        return total

    assert zenith.jit(program)(np.ones(3)) == 0
