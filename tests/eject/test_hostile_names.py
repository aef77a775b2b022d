"""Names of files, of functions and of keys are data: whatever they contain, they are written as comments."""

from __future__ import annotations

import ast
import linecache
import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest

import zenith
from zenith.errors import SourceLine

NAME = '/tmp/we"""ird\nraise SystemExit\r\x0b\x0c\x1c\x85\u2028\\\udc80x.py'
SOURCE = '''def f(d):
    """A docstring with \\"\\"\\", \\\\ and \\r in it.\\0"""
    return np.tanh(d["a\\nb"] + 1) * d['"""']  # \x0c \u2028 \x85
'''
X = np.ones(3, np.float32)
GIVEN = {"a\nb": X, '"""': X}


@pytest.fixture(scope="module")
def function():
    lines = [line + "\n" for line in SOURCE.split("\n")]
    linecache.cache[NAME] = (len(SOURCE), None, lines, NAME)
    names = {"np": np}
    exec(compile(SOURCE, NAME.replace("\udc80", "?"), "exec"), names)
    names["f"].__code__ = names["f"].__code__.replace(co_filename=NAME.replace("\udc80", "?"), co_name="f\nraise")
    jitted = zenith.jit(names["f"])
    jitted(GIVEN)
    yield jitted
    del linecache.cache[NAME]


@pytest.mark.parametrize("character", sorted({c for c in NAME if not c.isprintable()}))
def test_a_line_is_described_on_one_line(character):
    line = SourceLine(f"/a{character}b.py", 3, f"f{character}")
    for text in (str(line), line.describe()):
        assert text.isprintable() and len(text.splitlines()) == 1


def test_graphs_and_kernels_have_no_lines_of_others(function):
    for stage in ("graph", "optimized", "plan", "kernels"):
        assert not any(line.lstrip().startswith("raise") for line in function.show(stage).splitlines())
    zenith.parse(function.show("graph"))
    ast.parse(function.show("kernels"))


def test_an_ejected_file_is_the_same_program(function, tmp_path):
    path = tmp_path / 'e"""\nraise SystemExit\n\\.py'
    function.eject(path)
    spec = spec_from_file_location("hostile", path)
    module = sys.modules["hostile"] = module_from_spec(spec)
    spec.loader.exec_module(module)
    np.testing.assert_array_equal(module.f(GIVEN), function(GIVEN))
    del sys.modules["hostile"]


@pytest.mark.parametrize("name", ["saved.zenith", "saved"])
def test_a_saved_one_is_the_same_function(function, tmp_path, name):
    function.save(tmp_path / name)
    loaded = zenith.load(tmp_path / name)
    np.testing.assert_array_equal(loaded(GIVEN), function(GIVEN))
    assert loaded.show("graph") == function.show("graph") and loaded.show("kernels") == function.show("kernels")
