"""The documentation's site: whole, made without a network, with an entry for every public name, and fit to be seen.

In Chromium, where one is installed, no page is wider than its window, reports an error, or shows a blank picture.
"""

import functools
import http.server
import json
import re
import shutil
import sys
import threading
from types import ModuleType

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import sync_playwright

import zenith
from tests.test_docs import ROOT
from zenith.ir.primitive import all_primitives

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
INDEX = "search/search_index.json"
# A picture is blank if all its pixels are the same; a box that hides what is too wide for it cuts it off.
LOOK = """
() => {
  const page = document.documentElement, faults = []
  if (page.scrollWidth > page.clientWidth) faults.push(`${page.scrollWidth} wide in ${page.clientWidth}`)
  for (const box of document.querySelectorAll("pre > code, .md-typeset__scrollwrap, .jp-RenderedHTML"))
    if (box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX == "hidden")
      faults.push("cut off: " + box.textContent.slice(0, 60))
  for (const picture of document.querySelectorAll("article img")) {
    const canvas = document.createElement("canvas")
    canvas.width = canvas.height = 64
    const context = canvas.getContext("2d")
    if (picture.naturalWidth) context.drawImage(picture, 0, 0, 64, 64)
    const pixels = new Set(new Uint32Array(context.getImageData(0, 0, 64, 64).data.buffer))
    if (pixels.size < 2) faults.push("blank: " + picture.src)
  }
  return faults
}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site. MkDocs is strict: a link or an anchor that leads nowhere is an error."""
    made = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(made)))
    return made


@pytest.fixture(scope="module")
def site(folder):
    """The text of every page by its path."""
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.html")}


@pytest.fixture(scope="module")
def primitive_pages(site):
    return sys.modules["site_primitives"].pages()


def test_each_public_name_has_an_entry(site):
    """Anchors are the names under which users find them; what is shown by a module of NumPy's is as public."""
    modules = dict(_modules("zenith", zenith)) | {"zenith.transforms": zenith.transforms}
    assert len(modules) > 15
    for path, module in modules.items():
        entries = set(re.findall(r'id="([^"]+)"', site[f"reference/{path}.html"]))
        names = {f"{path}.{name}" for name in _names(module) if not isinstance(getattr(module, name), ModuleType)}
        assert names - entries == set()


def _modules(path, module):
    """Each public module by its path."""
    yield path, module
    for name in _names(module):
        if isinstance(value := getattr(module, name), ModuleType):
            yield from _modules(f"{path}.{name}", value)


def _names(module):
    return [name for name in getattr(module, "__all__", None) or dir(module) if name[0] != "_"]


def test_entries_have_signatures_types_errors_and_examples(site):
    jit, choice = (_entry(site, page, name) for page, name in [("zenith", "jit"), ("zenith.random", "choice")])
    assert "<b><code>static_argnums, static_argnames</code></b>" in jit and 'href="../precision.html"' in jit
    for title in ("Parameters", "Returns", "Raises", "Examples"):
        assert f"{title}:" in choice
    assert "ShapeError" in choice and "replace" in choice
    assert "same_kind" in _entry(site, "zenith.numpy", "add")  # its signature is made by a call
    assert 'href="#zenith.numpy.absolute"' in _entry(site, "zenith.numpy", "abs")
    assert "numpy.float32" in _entry(site, "zenith.numpy", "float32")
    assert ":func:" not in "".join(site.values()) and ":class:" not in "".join(site.values())


def _entry(site, page, name):
    text = site[f"reference/{page}.html"]
    start = text.index(f'id="{page}.{name}"')
    return text[start : text.index("<h2", start)]


def test_docstrings_are_read_in_the_project_s_form(site):
    """Several items may share a line; a section without items is a mistake of the docstring's."""
    read = sys.modules["site_docstrings"]
    assert dict(read.items("a: real. n, m: sizes: any.\n    More. b: not known.", read._starts("anm"))) == {
        "a": "real.\n", "n, m": "sizes: any.\nMore. b: not known."}  # fmt: skip
    raised = dict(read.items("ShapeError: no axis. KeyError or OSError: see Zenith: there.", read.RAISED))
    assert raised == {"ShapeError": "no axis.\n", "KeyError or OSError": "see Zenith: there.\n"}
    with pytest.raises(ValueError, match="starts with no item"):
        list(read.items("ShapeError when there is no axis.", read.RAISED))


def test_each_primitive_has_a_page_with_its_facts(site, primitive_pages):
    for primitive in all_primitives():
        page = primitive_pages[f"primitives/{primitive.name}.md"]
        assert page.startswith(f"# {primitive.name}\n\n{primitive.doc}\n")
        assert f"[{primitive.name}]({primitive.name}.md)" in primitive_pages["primitives/index.md"]
    assert sum(name.startswith("primitives/") for name in site) == len(all_primitives()) + 1


def test_each_primitive_is_in_the_file_that_registers_it(primitive_pages):
    """A page of each file, one whose records a function of another file makes among them."""
    for name, file in {"hypot": "formulas", "ge": "elementwise", "bit_or": "logic", "fused": "region"}.items():
        assert f"| Defined in | `zenith/ir/ops/{file}.py` |" in primitive_pages[f"primitives/{name}.md"]


def test_pages_say_what_records_say(primitive_pages):
    tanh, argmax, matmul = (primitive_pages[f"primitives/{name}.md"] for name in ("tanh", "argmax", "matmul"))
    assert "| Kernels compute it as | Scalar: `tanh(x)` |" in tanh and "v6 = sub(v4, v5)" in tanh
    assert "| Forward derivative | none: " in argmax
    assert "CPU: product; CUDA: product" in matmul


def test_links_lead_to_pages_and_those_to_files_outside_of_the_site_become_text(site):
    index = site["index.html"]
    assert 'href="quickstart.html">docs/quickstart.md</a>' in index and 'href="notebooks/01_quickstart.html"' in index
    assert 'src="pictures/race.svg"' in index and 'href="../ARCHITECTURE.html"' in site["notebooks/01_quickstart.html"]
    assert not re.search(r'href="[^":]*\.(?:md|py|ipynb)[#"]', "".join(site.values()))


def test_nothing_comes_from_the_network(site):
    loaded = re.findall(r'<(?:script|link|img|iframe)[^>]*(?:src|href)="(https?:[^"]+)"', "".join(site.values()))
    assert loaded == []


def test_code_is_coloured(site):
    for page in ("quickstart", "ARCHITECTURE", "notebooks/01_quickstart", "primitives/tanh", "reference/zenith.nn"):
        assert re.search(r'<span class="k\w?">', site[f"{page}.html"]), page


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize("primitives", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_pages_fit_their_windows_in_a_browser(folder, site, primitives):
    """On a screen and on a telephone; search, which reads its index, finds an entry. Primitives' pages are alike."""
    shown = [name for name in sorted(site) if name.startswith("primitives/") == primitives]
    shown += ["primitives/index.html", "primitives/tanh.html"]
    handler = functools.partial(_Quiet, directory=str(folder))
    faults = []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, sync_playwright() as playwright:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        home = f"http://127.0.0.1:{server.server_port}/"
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page()
        page.on("console", lambda said: faults.append((page.url, said.text)) if said.type == "error" else None)
        page.on("pageerror", lambda error: faults.append((page.url, str(error))))
        page.on("request", lambda asked: asked.url.startswith((home, "data:", "blob:")) or faults.append(asked.url))
        index = json.loads((folder / INDEX).read_text("utf-8"))
        page.route(f"{home}{INDEX}", lambda asked: asked.fulfill(json=index | {"docs": []}))  # else each page reads it
        for name in shown:
            page.set_viewport_size({"width": 1280, "height": 800})
            page.goto(home + name)
            faults += [(name, fault) for fault in page.evaluate(LOOK)]
            page.set_viewport_size({"width": 390, "height": 800})
            faults += [(name, "telephone", fault) for fault in page.evaluate(LOOK)]
        page.unroute(f"{home}{INDEX}")
        page.goto(home + "index.html?q=associative_scan")
        page.wait_for_selector(".md-search-result__item a[href*='reference/zenith.html']", state="attached")
        browser.close()
        server.shutdown()
    assert faults == []


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of a folder that tells nobody."""

    def log_message(self, *_):
        pass
