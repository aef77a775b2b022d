"""What compiled functions report about themselves."""

from pathlib import Path

import numpy as np
import pytest

import zenith
from zenith.errors import ZenithError

X = np.ones((2, 3), np.float32)


def scaled(x, y):
    return np.exp(x * y) + 1


@pytest.fixture(scope="module")
def compiled():
    function = zenith.jit(scaled)
    function(X, X)
    function(X, X)
    return function


def test_before_the_first_call():
    function = zenith.jit(scaled)
    with pytest.raises(ZenithError, match=r"scaled has not been compiled yet(.|\n)*call it once"):
        function.show("graph")
    with pytest.raises(ZenithError, match="call it once"):
        _ = function.graph
    assert "0 compilations" in str(function.explain())


@pytest.mark.parametrize("stage", ["graph", "optimized", "plan", "kernels"])
def test_show_prints_and_returns(compiled, stage, capsys):
    text = compiled.show(stage)
    assert text and capsys.readouterr().out == text + "\n"


@pytest.mark.parametrize("stage", ["graph", "optimized"])
def test_pictures_open_in_the_browser(compiled, stage, capsys, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = compiled.show(stage, open=True)
    assert capsys.readouterr().out == path + "\n" and opened == [Path(path).as_uri()]
    page = Path(path).read_text("utf-8")
    assert f"scaled: {stage}" in page and "<svg" in page and "exp" in page


def test_a_plan_has_no_picture(compiled):
    with pytest.raises(ZenithError, match=r"'plan' has no picture(.|\n)*'optimized'"):
        compiled.show("plan", open=True)


def test_a_loaded_function_has_the_same_pictures(compiled, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    compiled.save(tmp_path / "f.zenith")
    loaded = zenith.load(tmp_path / "f.zenith")
    assert all("exp" in Path(loaded.show(stage, open=True)).read_text("utf-8") for stage in ("graph", "optimized"))


def test_the_graph_is_shown_with_the_users_lines(compiled):
    assert "test_inspection.py:" in compiled.show("graph") and "np.exp(x * y) + 1" in compiled.show("graph")


def test_a_stage_that_does_not_exist(compiled):
    with pytest.raises(ZenithError, match=r"no stage 'assembly'(.|\n)*'kernels'"):
        compiled.show("assembly")


def test_explain_says_what_was_compiled(compiled):
    text = str(compiled.explain())
    for line in ("scaled: 1 compilations, 1 calls without one", "first call", "def bind(leaves):", "passes", "kernels"):
        assert line in text
    assert "<pre" in compiled.explain()._repr_html_()


def test_explain_in_a_notebook_is_shown_once_as_a_part_of_its_page(compiled, monkeypatch):
    """rich, in a notebook, displays what is printed to any console, and its pages colour the notebook's own."""
    expected = str(compiled.explain())
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    assert str(compiled.explain()) == expected
    html = compiled.explain()._repr_html_()
    assert "first call" in html and "<body" not in html and "<style" not in html


def test_explain_says_why_operations_were_not_fused():
    function = zenith.jit(lambda x: np.sum(np.exp(x), axis=0) + 1, backend="lanes")
    function(X)
    assert "not fused" not in str(zenith.jit(scaled, backend="lanes").explain())
    text = " ".join(str(function.explain()).split())
    assert "not fused" in text and "reduce_sum (test_inspection.py:" in text and "nothing is computed after" in text


def test_the_graph_itself(compiled):
    assert zenith.parse(str(compiled.graph), compiled.graph.constants) == compiled.graph
    assert repr(compiled) == "<zenith.jit of scaled>"
