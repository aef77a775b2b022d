"""The documentation's site: a page for each primitive, links that lead somewhere, made without a network."""

import runpy
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from zenith.ir.primitive import all_primitives

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def made():
    return runpy.run_path(str(ROOT / "docs" / "make_site.py"))


@pytest.fixture(scope="module")
def pages(made):
    return made["pages"]()


@pytest.fixture
def gather(made):
    return made["gather"]


def test_each_primitive_has_a_page_with_its_facts(pages):
    for primitive in all_primitives():
        page = pages[f"primitives/{primitive.name}.md"]
        assert page.startswith(f"# {primitive.name}\n\n{primitive.doc}\n")
        assert f"[{primitive.name}]({primitive.name}.md)" in pages["primitives/index.md"]


def test_each_primitive_is_in_the_file_that_registers_it(pages):
    """A page of each file, one whose records a function of another file makes among them."""
    for name, file in {"hypot": "formulas", "ge": "elementwise", "bit_or": "logic", "fused": "region"}.items():
        assert f"| Defined in | `zenith/ir/ops/{file}.py` |" in pages[f"primitives/{name}.md"]


def test_links_to_files_outside_of_the_site_become_text(pages):
    assert "[docs/quickstart.md](quickstart.md)" in pages["index.md"] and "ipynb)" not in pages["index.md"]
    assert "](pictures/race.svg)" in pages["index.md"]


def test_pages_say_what_records_say(pages):
    tanh, argmax, matmul = (pages[f"primitives/{name}.md"] for name in ("tanh", "argmax", "matmul"))
    assert "| Kernels compute it as | Scalar: `tanh(x)` |" in tanh and "v6 = sub(v4, v5)" in tanh
    assert "| Forward derivative | none: " in argmax
    assert "CPU: product; CUDA: product" in matmul


def test_the_site_is_whole(gather, tmp_path):
    """MkDocs is strict: a link or a page of the menu that leads nowhere is an error."""
    gather(tmp_path / "pages")
    folders = {"docs_dir": str(tmp_path / "pages"), "site_dir": str(tmp_path / "site")}
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, **folders))
    assert len(list((tmp_path / "site" / "primitives").glob("*.html"))) == len(all_primitives()) + 1
    assert not any(host in (tmp_path / "site" / "index.html").read_text() for host in ("googleapis", "cdnjs"))
