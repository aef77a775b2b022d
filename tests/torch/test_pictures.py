"""Pictures of modules: boxes are modules, equal layers are one, and a browser shows and opens them."""

import io
import shutil

import pytest
import torch
import transformers

import zenith
from zenith.ir.pictures import graphviz
from zenith.ir.pictures.outline import Repeat, numbers_of, outline
from zenith.ir.pictures.page import to_page
from zenith.torch.lines import module_of

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
SMALL = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 99}


@pytest.fixture(scope="module")
def encoder():
    """The graph of a BERT with six layers, as MiniLM has them."""
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(**SMALL, num_hidden_layers=6)).eval()
    ids = torch.randint(0, 99, (2, 7))
    compiled = zenith.from_torch(model, (ids, torch.ones_like(ids)))
    with torch.no_grad():
        compiled(ids, torch.ones_like(ids))
    return compiled.graph


@pytest.fixture(autouse=True)
def own_layout(monkeypatch):
    monkeypatch.setattr(graphviz, "is_installed", lambda: False)


def test_six_equal_layers_are_one_box(encoder):
    found = outline(encoder)
    titles = [getattr(item, "title", "") for item in found.items]
    assert titles[0] == "embeddings" and titles[2:] == ["encoder.layer.0 to 5", "pooler"]
    layers = found.items[2]
    assert isinstance(layers, Repeat) and len(layers.runs) == 6 and layers.stored == "own weights"
    for number, run in enumerate(layers.runs):
        modules = {encoder.node(n).line.module for n in run}
        assert all(module.startswith(f"encoder.layer.{number}.") for module in modules)
    assert [item.title for item in layers.items] == ["attention", "intermediate", "output"]


def test_the_picture_fits_a_notebook(encoder):
    head = encoder.to_svg().split(">", 1)[0]
    assert float(head.split('width="')[1].split('"')[0]) <= 1000 and "x 6" in encoder.to_svg()
    assert len(encoder.to_html()) < 400_000


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_a_browser_shows_the_picture_and_a_click_opens_a_fold(encoder, tmp_path):
    from PIL import Image
    from playwright.sync_api import sync_playwright

    (tmp_path / "page.html").write_text(to_page(encoder, "BertModel"), encoding="utf-8")
    faults = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM)
        page = browser.new_page(viewport={"width": 1000, "height": 800})
        page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith("file:") or faults.append(asked.url))
        page.goto((tmp_path / "page.html").as_uri())
        picture = page.locator("svg").first
        colors = Image.open(io.BytesIO(picture.screenshot())).convert("RGB").getcolors(1 << 20)
        assert len(colors) > 20 and picture.bounding_box()["width"] <= 1000
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.locator("svg:visible").count() == 1
        page.locator("svg g.opens", has_text="x 6").first.click()
        assert page.locator("svg:visible").count() == 2
        page.locator("svg:visible g.opens", has_text="attention").last.click()
        assert page.locator("svg:visible").count() == 3
        page.locator("svg g.opens", has_text="x 6").first.click()
        assert page.locator("svg:visible").count() == 1
        browser.close()
    assert faults == []


def test_blocks_that_differ_by_a_shortcut_are_not_folded():
    class Block(torch.nn.Module):
        def __init__(self, width, stride):
            super().__init__()
            self.conv = torch.nn.Conv2d(width // stride, width, 3, stride, 1)
            self.norm = torch.nn.BatchNorm2d(width)
            self.shortcut = torch.nn.Conv2d(width // stride, width, 1, stride) if stride > 1 else None

        def forward(self, x):
            return torch.relu(self.norm(self.conv(x)) + (x if self.shortcut is None else self.shortcut(x)))

    torch.manual_seed(0)
    model = torch.nn.Sequential(Block(8, 2), Block(8, 1), Block(8, 1), Block(8, 1)).eval()
    x = torch.randn(2, 4, 8, 8)
    compiled = zenith.from_torch(model, (x,))
    with torch.no_grad():
        compiled(x)
    found = outline(compiled.graph).items
    (fold,) = [item for item in found if isinstance(item, Repeat)]
    assert fold.title == "1 to 3" and len(fold.runs) == 3
    lines = [compiled.graph.node(n).line for item in found for n in numbers_of(item)]
    assert all(line.file == __file__ and line.module for line in lines)  # norms run through a function of Zenith's


def test_modules_of_pytorch_alone_have_names():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8)).eval()
    compiled = zenith.from_torch(model, (torch.randn(4, 8),))
    with torch.no_grad():
        compiled(torch.randn(3, 8))
    found = outline(compiled.graph).items
    assert [item.title for item in found] == ["0", "1", "2"]
    lines = {compiled.graph.node(n).line for item in found for n in numbers_of(item)}
    assert {line.file for line in lines} == {__file__}


@pytest.mark.parametrize(("path", "module"), [
    ("encoder.layer.0", "encoder.layer.0"), ("", ""), ("L['self']", ""), ("L['self'].layer.0", "layer.0"),
    ("L['fn']._modules['layer']._modules['0'].dense", "layer.0.dense"),
    ("_empty_nn_module_stack_from_metadata_hook", ""),
])  # fmt: skip
def test_module_paths_are_spelled_alike(path, module):
    node = torch.fx.Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"outer": ("", torch.nn.Module), "inner": (path, torch.nn.Module)}
    assert module_of(node) == module
    assert module_of(torch.fx.Graph().placeholder("y")) == ""
