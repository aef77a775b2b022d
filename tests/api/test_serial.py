"""Saved functions: what comes back computes the same bits, in a process that has neither source nor compiler."""

from __future__ import annotations

import collections
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import zenith
from tests.threads import in_threads
from zenith import ShapeDtypeStruct
from zenith.api.saving import read
from zenith.backends.archive import write
from zenith.errors import LoadError, ShapeError, TraceError, UnsupportedError, ZenithError
from zenith.ir.types import DTYPES

ROOT = Path(__file__).resolve().parents[2]
W = np.linspace(-1, 1, 24 * 40, dtype=np.float32).reshape(24, 40)
B = np.linspace(0, 1, 40, dtype=np.float32)


class Pair(NamedTuple):
    first: object
    second: object


def rows(n, dtype=np.float32, width=24):
    return (np.arange(width * n) % 17 / 9).astype(dtype).reshape(n, width)


def layer(x):
    return np.tanh(x @ W + B)


def same(found, wanted):
    """The same structure, types and bits."""
    left, right = zenith.tree.flatten(found), zenith.tree.flatten(wanted)
    assert left[1] == right[1]
    for one, other in zip(left[0], right[0], strict=True):
        assert type(one) is type(other) and getattr(one, "dtype", None) == getattr(other, "dtype", None)
        np.testing.assert_array_equal(one, other)


def saved(function, path, *calls):
    """Call a jitted function, save it; what was loaded."""
    for args, kwargs in calls:
        function(*args, **kwargs)
    function.save(path)
    return zenith.load(path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "function.zenith"


def test_captured_arrays_and_every_size(path):
    function = zenith.jit(layer)
    loaded = saved(function, path, ((rows(3),), {}))
    for n in (3, 1, 0, 200):
        same(loaded(rows(n)), function(rows(n)))
    same(loaded(x=rows(4)), function(rows(4)))
    same(loaded(rows(8)[::2]), function(rows(8)[::2]))


def test_what_was_captured_stays_as_it_was(path):
    w = np.ones((3, 2), np.float32)
    function = zenith.jit(lambda x: x @ w)
    loaded = saved(function, path, ((np.ones((1, 3), np.float32),), {}))
    w[:] = 7
    np.testing.assert_array_equal(loaded(np.ones((1, 3), np.float32)), [[3, 3]])


def test_structures_keywords_static_arguments_and_result_types(path):
    @zenith.jit(static_argnames=("power", "names"))
    def function(params, *rest, power=1, names=("a",), scale):
        x = params["x"] ** power * scale
        return {"z": x, names[-1]: (rest[0].sum(), [x > 1, np.argmax(x, axis=-1)]), "pair": Pair(x + 1, None)}

    params = {"x": rows(5), "more": [np.float32(2), 3.5, True], 3: None}
    calls = [
        ((params, np.arange(4)), {"scale": 2}),
        ((params, np.arange(4), np.ones((2, 2))), {"scale": rows(5), "power": 3, "names": ("b", "c")}),
        ((params | {"x": rows(2, np.float64)}, np.arange(4)), {"scale": np.float32(0.5)}),
    ]
    loaded = saved(function, path, *calls)
    for args, kwargs in calls:
        same(loaded(*args, **kwargs), function(*args, **kwargs))
        same(loaded(*args, **kwargs), function(*args, **kwargs))  # its form is known now
    assert loaded.cache_info().size == 3 and loaded.cache_info().misses == 0 and loaded.cache_info().hits == 6
    with pytest.raises(TraceError, match=r"(?s)without a program for .*power=2.*saved: .*power=3"):
        loaded(*calls[1][0], scale=rows(5), power=2)
    with pytest.raises(TraceError, match="without a program for"):
        loaded(*calls[0][0], scale=2, power=np.float64)


def test_dicts_in_another_order_are_another_call(path):
    function = zenith.jit(lambda p, k: sum((i + 1) * v for i, v in enumerate(p["more"].values())) * k + p["x"],
                          static_argnames="k")  # fmt: skip
    one, other = {"x": B, "more": {"b": B, "a": B + 1}}, {"more": {"a": B + 1, "b": B}, "x": B}
    loaded = saved(function, path, ((one,), {"k": 2}))
    same(loaded(one, k=2), function(one, k=2))
    with pytest.raises(TraceError, match="with the keys of dicts in this order"):
        loaded(other, k=2)
    both = saved(function, path, ((other,), {"k": 2}))
    same(both(one, k=2), function(one, k=2))
    same(both(other, k=2), function(other, k=2))
    with pytest.raises(TraceError, match=r"x.\]\[0\]"):
        loaded({**one, "x": [B]}, k=2)


@pytest.mark.parametrize("value", [2, 2.5, True, np.float32(3), np.int64(4)])
def test_numbers_are_taken_as_they_were(path, value):
    function = zenith.jit(lambda x, k: (x * k, k))
    loaded = saved(function, path, ((rows(2), value), {}))
    same(loaded(rows(3), value), function(rows(3), value))
    with pytest.raises(TraceError, match="k: a "):
        loaded(rows(3), 2 if isinstance(value, float) else 2.5)


def test_element_types(path):
    captured = [np.array([0, 1, 3, 0]).astype(t.numpy) for t in DTYPES]
    function = zenith.jit(lambda xs: [(np.where(h > 0, x, h), x == h, h) for x, h in zip(xs, captured, strict=True)])
    xs = [np.array([0, 1, 2, 3]).astype(t.numpy) for t in DTYPES]
    loaded = saved(function, path, ((xs,), {}))
    same(loaded(xs), function(xs))
    assert [found.dtype for found, _, _ in loaded(xs)] == [t.numpy for t in DTYPES]


def test_loops_branches_and_random_numbers(path):
    weights = rows(6, width=6)

    @zenith.jit
    def function(x, key, n):
        carry, steps = zenith.scan(lambda c, w: (np.tanh(c * w), c.sum()), x, weights)
        grown = zenith.while_loop(lambda s: s.sum() < n, lambda s: s + 1, carry)
        chosen = zenith.cond(n > 50.0, lambda v: v * weights[0], lambda v: v - 1.0, grown)
        return chosen + zenith.random.normal(key, chosen.shape), steps

    args = (np.ones(6, np.float32), zenith.random.key(3), 70.0)
    loaded = saved(function, path, (args, {}))
    same(loaded(*args), function(*args))
    same(loaded(*args[:2], 3.0), function(*args[:2], 3.0))


def test_a_program_for_each_branch_on_a_size(path):
    @zenith.jit
    def function(x):
        return x * 2 if x.shape[0] == 1 else x + 1 if x.shape[0] < 10 else x - 1

    loaded = saved(function, path, ((rows(1),), {}), ((rows(3),), {}))
    for n in (1, 2, 9):
        same(loaded(rows(n)), function(rows(n)))
    with pytest.raises(ShapeError, match=r"(?s)of these sizes: .*x0 <= 9 is assumed .*which is false here.*saved: "):
        loaded(rows(10))


def test_requirements_stay_errors_of_the_caller(path):
    loaded = saved(zenith.jit(layer), path, ((rows(2),), {}))
    with pytest.raises(ShapeError, match="the inner sizes"):
        loaded(rows(2, width=23))


def test_an_index_outside_its_axis_still_names_the_line(path):
    loaded = saved(zenith.jit(lambda x, i: x[i]), path, ((rows(3), np.array([1])), {}))
    with pytest.raises(zenith.errors.OutOfBoundsError, match=r"test_serial\.py"):
        loaded(rows(3), np.array([3]))


def test_other_types_and_structures_are_refused_with_what_was_saved(path):
    loaded = saved(zenith.jit(layer), path, ((rows(2),), {}))
    with pytest.raises(TraceError) as error:
        loaded(rows(2, np.float64))
    assert "layer was saved without a program for (x: numpy f64[_, _])" in str(error.value)
    assert "saved: (x: numpy f32[_, _])" in str(error.value) and "fix: " in str(error.value)
    for args in (([rows(2)],), (rows(2), 1), (), (rows(2)[0],)):
        with pytest.raises(TraceError, match="without a program for"):
            loaded(*args)
    with pytest.raises(TraceError, match="neither an array nor a number"):
        loaded("text")
    with pytest.raises(TraceError, match="cannot be traced"):
        zenith.jit(lambda x: loaded(x))(rows(2))


def test_methods_and_programs_compiled_ahead(path):
    class Model:
        def __init__(self):
            self.scale = np.float32(3)

        @zenith.jit
        def run(self, x):
            return x * self.scale

    model = Model()
    model.run.lower(ShapeDtypeStruct(("n",), "float32")).compile()
    model.run.save(path)
    loaded = zenith.load(path)
    np.testing.assert_array_equal(loaded(np.ones(2, np.float32)), [3, 3])
    np.testing.assert_array_equal(loaded(x=np.ones(5, np.float32)), [3] * 5)


def test_what_a_loaded_function_reports(path, capsys):
    function = zenith.jit(layer)
    loaded = saved(function, path, ((rows(2),), {}))
    assert loaded.graph == function.graph and loaded.__name__ == "layer" and "loaded from" in repr(loaded)
    for stage in ("graph", "optimized", "plan", "kernels"):
        assert loaded.show(stage) == function.show(stage)
    text = str(loaded.explain())
    assert f"loaded from {path}" in text.replace("\n", "") or "loaded from" in text
    assert "def bind(leaves)" in text and "from disk" in text
    assert str(path) in str(loaded.cache_info())
    with pytest.raises(ZenithError, match="there is no stage"):
        loaded.show("ptx")


def test_a_loaded_function_never_compiles_inside_forbid_recompile(path):
    loaded = saved(zenith.jit(layer), path, ((rows(2),), {}))
    with zenith.forbid_recompile():
        loaded(rows(3))


def test_programs_share_what_they_share_in_a_file(path):
    captured = np.random.default_rng(0).standard_normal((48, 4000), dtype=np.float32)
    function = zenith.jit(lambda x: x.astype(np.float32) @ captured)
    function(rows(2, width=48))
    function.save(path)
    one = path.stat().st_size
    function(rows(2, np.float64, width=48))
    function.save(path)
    assert one > captured.nbytes and path.stat().st_size - one < captured.nbytes / 10
    loaded = zenith.load(path)
    for dtype in (np.float32, np.float64):
        same(loaded(rows(3, dtype, 48)), function(rows(3, dtype, 48)))


def test_threads_call_and_load_at_once(path):
    function = zenith.jit(layer)
    wanted = [(function(rows(n)), rows(n)) for n in range(1, 9)]
    function.save(path)
    loaded = zenith.load(path)

    def work(number):
        mine = loaded if number % 2 else zenith.load(path)
        for _ in range(20):
            for result, x in wanted:
                same(mine(x), result)

    in_threads(4, work)


def test_saving_again_replaces_the_file_of_a_loaded_function(path):
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)  # captured, so that they are read from the file
    first = saved(zenith.jit(lambda x: x + one), path, ((rows(2, width=2),), {}))
    second = saved(zenith.jit(lambda x: x + two), path, ((rows(2, width=2),), {}))
    x = np.zeros((2, 2), np.float32)
    assert (first(x) == 1).all() and (second(x) == 2).all() and (zenith.load(path)(x) == 2).all()


class Unknown:
    pass


REFUSED = {
    "nothing compiled": (lambda: zenith.jit(layer), (), {}, "no compiled program to save"),
    "lanes": (lambda: zenith.jit(layer, backend="lanes"), (rows(2),), {}, 'backend="cpu"'),
    "reference": (lambda: zenith.jit(layer, backend="reference"), (rows(2),), {}, 'backend="cpu"'),
    "a callback": (lambda: zenith.jit(_printing), (rows(2),), {}, "remove zenith.debug.print"),
    "a static type": (lambda: zenith.jit(_cast, static_argnames="to"), (rows(2), np.float64), {}, "static argument"),
    "an ordered dict": (lambda: zenith.jit(lambda t: t["x"]), (collections.OrderedDict(x=rows(1)),), {}, "OrderedDict"),
    "keys": (lambda: zenith.jit(lambda x: {(1, 2): x}), (rows(2),), {}, "a dict with such keys"),
}


def _printing(x):
    zenith.debug.print("{}", x.sum())
    return x


def _cast(x, to):
    return x.astype(to)


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_saved_says_why(path, case, capsys):
    make, args, kwargs, why = REFUSED[case]
    function = make()
    if args:
        function(*args, **kwargs)
    with pytest.raises(ZenithError, match=f"(?s){why}"):
        function.save(path)
    assert not path.exists()
    assert isinstance(UnsupportedError("x"), NotImplementedError)


def spoilt(path, **changes):
    """The file with another ``made_for``."""
    archive = read(path)
    write(path, {**archive.made_for, **changes}, archive.content)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"zenith": "0"}, "another version of Zenith"),
        ({"triple": "vax-dec-ultrix"}, "was saved for .*vax-dec-ultrix.*a machine of this kind"),
        ({"features": "+amx-quantum,-sse3"}, "which lacks amx-quantum"),
        ({"instructions": "portable"}, "set ZENITH_ISA=portable"),
    ],
)
def test_files_of_other_machines_and_versions_are_refused(path, changes, why):
    saved(zenith.jit(layer), path, ((rows(2),), {}))
    spoilt(path, **changes)
    with pytest.raises(LoadError, match=f"(?s){path}.*{why}"):
        zenith.load(path)


def test_a_processor_with_more_features_will_do(path):
    function = zenith.jit(layer)
    saved(function, path, ((rows(2),), {}))
    features = read(path).made_for["features"].split(",")
    spoilt(path, cpu="elder", features=",".join(f for f in features if f != next(g for g in features if g[0] == "+")))
    same(zenith.load(path)(rows(2)), function(rows(2)))


def test_damaged_files_are_refused(path):
    saved(zenith.jit(layer), path, ((rows(2),), {}))
    data = bytearray(path.read_bytes())
    data[-100] ^= 1
    path.write_bytes(data)
    with pytest.raises(LoadError, match=r"(?s)is damaged.*save it again"):
        zenith.load(path)
    path.write_bytes(data[:-300])
    with pytest.raises(LoadError, match=r"(?s)is damaged: it is cut off"):
        zenith.load(path)
    with pytest.raises(FileNotFoundError):
        zenith.load(path.with_name("missing"))


def test_another_process_needs_neither_source_nor_numba_nor_cache(tmp_path):
    """The functions live in a module that the second process cannot import."""
    (tmp_path / "made.py").write_text(
        textwrap.dedent(
            """
            import sys, typing, numpy as np, zenith
            Point = typing.NamedTuple("Point", [("x", object), ("y", object)])
            W = np.linspace(-1, 1, 24 * 40, dtype=np.float32).reshape(24, 40)
            @zenith.jit
            def function(tree, i):
                h = np.tanh(tree["x"] @ W)
                return Point(h, {"best": np.argmax(h, axis=-1), "of": np.sort(h, axis=-1)[:, i]})
            function({"x": np.ones((3, 24), np.float32)}, 2)
            function.save(sys.argv[1] + "/f.zenith")
            result = function({"x": np.arange(48, dtype=np.float32).reshape(2, 24) / 48}, 5)
            np.savez(sys.argv[1] + "/wanted.npz", result.x, result.y["best"], result.y["of"])
            """
        )
    )
    load = textwrap.dedent(
        """
        import sys
        sys.modules["numba"] = sys.modules["torch"] = None  # importing them is an error
        import json, numpy as np, zenith
        function = zenith.load(sys.argv[1] + "/f.zenith")
        result = function({"x": np.arange(48, dtype=np.float32).reshape(2, 24) / 48}, 5)
        wanted = np.load(sys.argv[1] + "/wanted.npz")
        found = [result.x, result.y["best"], result.y["of"]]
        assert all((a == b).all() and a.dtype == b.dtype for a, b in zip(found, wanted.values(), strict=True))
        print(json.dumps([type(result).__name__, result._fields, function.cache_info().hits]))
        """
    )
    _run([str(tmp_path / "made.py")], tmp_path, tmp_path / "cache")
    (tmp_path / "made.py").unlink()
    empty = tmp_path / "empty"
    assert json.loads(_run(["-c", load], tmp_path, empty)) == ["Point", ["x", "y"], 1]
    assert not empty.exists()


def _run(command, folder, cache):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "ZENITH_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, *command, str(folder)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
