"""The documents are true: ARCHITECTURE.md is what the stages print, notebooks and examples run, links exist.

What README.md and others say of measurements, and its examples, have their test in tests/benchmarks/test_readme.py.
"""

import re
import runpy
from pathlib import Path

import nbformat
import numpy as np
import pytest

from zenith.backends.cuda.compile import available
from zenith.ir.types import DTYPES, INTEGERS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md")
DOCUMENTS += tuple(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")) if ".in." not in path.name)
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
GPU = "04_gpu.ipynb"
LINK = re.compile(r"\]\((?!https?://)([^)#]+)")


@pytest.fixture(scope="module")
def generator():
    return runpy.run_path(str(ROOT / "docs" / "make_architecture.py"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_architecture_is_what_the_stages_print(generator):
    assert generator["architecture"]() == read("ARCHITECTURE.md"), "run `make docs`"


def test_coverage_is_what_the_tables_say():
    """Of the version of NumPy for which it was made, which the text names."""
    text = read("docs/coverage.md")
    if f"NumPy {'.'.join(np.__version__.split('.')[:2])} has" not in text:
        pytest.skip(f"the tables were made for another version than {np.__version__}")
    assert runpy.run_path(str(ROOT / "docs" / "make_coverage.py"))["coverage"]() == text, "run `make docs`"


def test_settings_are_those_of_the_record():
    assert runpy.run_path(str(ROOT / "docs" / "make_settings.py"))["settings"]() == read("docs/settings.md"), (
        "make docs"
    )


def test_exhibits_are_neither_missing_nor_left_out(generator):
    fill = generator["fill"]
    assert fill("one\n{{ a }}\ntwo", {"a": "1\n"}).endswith("one\n1\ntwo")
    with pytest.raises(KeyError, match="b"):
        fill("{{ a }}\n{{ b }}", {"a": "1"})
    with pytest.raises(ValueError, match="does not show a, c"):
        fill("text {{ a }}", {"a": "1", "c": "2"})


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_lead_somewhere(name):
    missing = [target for target in LINK.findall(read(name)) if not (ROOT / name).parent.joinpath(target).exists()]
    assert missing == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_that_are_named_exist(name):
    """Paths such as `ir/dims.py` are given from the project's root or from zenith/; a recipe's own files are made."""
    text = re.sub(r"\*\*(?:One file|Its test)\*\*, `[^`]+`", "", read(name))
    paths = re.findall(r"`((?:\w+/)+\w+\.(?:py|md|in\.md))`", text)
    assert [p for p in paths if not ((ROOT / p).exists() or (ROOT / "zenith" / p).exists())] == []


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_that_are_named_exist(name):
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([\w-]+)", read(name), re.MULTILINE)) <= targets


@pytest.mark.parametrize(
    ("name", "least"),
    [
        pytest.param("gradients", 10, marks=pytest.mark.thorough),  # it compiles longest
        *(
            ("assignment", 6),
            ("compilations", 3),
            ("interop", 5),
            ("migration", 2),
            ("nn", 3),
            ("passes", 2),
            ("generation", 8),
            ("precision", 5),
            ("saving", 3),
            ("torch_compile", 4),
            ("training", 3),
        ),
    ],
)
def test_examples_run(name, least):
    """All blocks together, as a reader would type them."""
    examples = re.findall(r"```python\n(.*?)```", read(f"docs/{name}.md"), re.DOTALL)
    assert len(examples) >= least
    exec(compile("\n".join(examples), f"docs/{name}.md", "exec"), {"__name__": name})


def test_the_table_of_element_types_names_all_integers_and_the_example_runs():
    text = read("docs/dtypes.md")
    rows = re.findall(r"^\| ([\w, ]+) \| (`[\w`, ]+`) \|", text, re.MULTILINE)
    pairs = {
        p for names, short in rows for p in zip(names.split(", "), short.replace("`", "").split(", "), strict=True)
    }
    known, integers = ({(t.numpy_name, t.name) for t in types} for types in (DTYPES, INTEGERS))
    assert integers <= pairs <= known
    exec(
        compile(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "docs/dtypes.md", "exec"),
        {"__name__": "dtypes"},
    )


@pytest.mark.parametrize("path", [p for p in NOTEBOOKS if p.name != GPU], ids=lambda path: path.name)
def test_notebook_is_stored_with_its_outputs(path):
    """Of one run from the top, with a picture; `make notebooks` renews them. What the one on GPUs shows, a GPU says."""
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}
    assert "image/png" in set().union(*map(_shown, cells))
    assert path.stat().st_size < 600_000


def _shown(cell: nbformat.NotebookNode) -> set[str]:
    """The kinds of what a cell displays."""
    return {kind for output in cell.outputs for kind in output.get("data", ())}


# The first runs in `make test`, the others in `make fuzz`.
FIRST = "01_quickstart.ipynb"


@pytest.mark.parametrize("path", [
    pytest.param(path, marks=[pytest.mark.thorough] * (path.name != FIRST), id=path.name) for path in NOTEBOOKS
])  # fmt: skip
def test_notebook_runs_and_shows_what_is_stored(path, monkeypatch):
    if path.name == GPU and not available():
        pytest.skip("the CUDA compiler has wheels for Linux x86-64")
    notebook = nbformat.read(path, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    stored = [_shown(cell) for cell in cells]
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    cells = runpy.run_path(str(ROOT / "docs" / "make_notebooks.py"))["executed"](notebook)
    assert {"image/svg+xml", "image/png", "text/html"} <= set().union(*map(_shown, cells))
    assert path.name == GPU or stored == [_shown(cell) for cell in cells]
