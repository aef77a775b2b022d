"""``explain()`` says of each loop what it became and why; the document's examples run."""

import re
from pathlib import Path

import numpy as np

import zenith

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "plain_numpy.md"


def loops_of(function, *args):
    compiled = zenith.jit(function, convert=True)
    compiled(*args)
    return str(compiled.explain())


def test_loops_are_listed_once_with_their_reasons():
    def function(x, n):
        for i in range(n):
            for j in range(i):
                x[i] += x[j]
        for w in [0.5, 2.0]:
            x = x * w
        for _ in range(12):
            x = np.concatenate([x, x[-1:]])
        while x[0] < 100:
            x = x * 3
        return x

    compiled = zenith.jit(function, convert=True)
    compiled(np.ones(5), 5)
    found = {loop.line.code: (loop.kind, loop.why) for loop in compiled._specializer.latest.origin.loops}
    assert len(compiled._specializer.latest.origin.loops) == len(found) == 5
    assert found.pop("for _ in range(12):")[0] == "unrolled"
    assert found == {
        "for i in range(n):": ("scan", "the number of its turns is known when it begins"),
        "for j in range(i):": ("scan", "the number of its turns is known when it begins"),
        "for w in [0.5, 2.0]:": ("unrolled", "it goes over objects of Python's"),
        "while x[0] < 100:": ("while_loop", "values decide when it ends"),
    }
    text = str(compiled.explain())
    assert "a loop of known length" in text and "a loop with a condition" in text and "x is f64[x0 + 2]" in text


def test_functions_without_loops_have_no_table_of_them():
    assert "became" not in loops_of(lambda x: x + 1, np.ones(3))


def test_programs_that_fill_their_arguments_are_explained():
    def function(x):
        x.fill(2.0)
        x.put([0, 2], [7, 8])
        return x

    compiled = zenith.jit(function)
    compiled(np.zeros(4))
    assert "function" in str(compiled.explain())


def test_the_number_of_reports_does_not_follow_the_number_of_attempts():
    def function(x):
        s = 0
        for i in range(len(x)):
            for j in range(len(x)):
                s = s + x[j] * i
        return s

    compiled = zenith.jit(function, convert=True)
    compiled(np.ones(9))
    loops = compiled._specializer.latest.origin.loops
    assert [loop.kind for loop in loops] == ["scan", "scan"]
    assert [loop.line.code for loop in loops] == ["for j in range(len(x)):", "for i in range(len(x)):"]


def test_examples_of_the_document_run(tmp_path, capsys):
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) >= 4
    path = tmp_path / "plain_numpy.py"  # a file, in which the functions' source is found
    path.write_text("\n".join(examples), encoding="utf-8")
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), {"__name__": "plain_numpy"})
    assert "a loop with a condition" in capsys.readouterr().out
