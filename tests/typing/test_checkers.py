"""What type checkers say of users' programs: mypy always, pyright where it is installed (as ``basedpyright`` too)."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import zenith

HERE = Path(__file__).parent
ROOT = Path(zenith.__file__).parents[1]
PROGRAM, MISTAKES = HERE / "user_code.py", HERE / "user_mistakes.py"
# Those of libraries without types, and of one that takes as long to read as all others together, say nothing here.
CONFIG = """[mypy]
strict = true
follow_imports = silent
[mypy-transformers.*,scipy.*,networkx.*,numba.*,cupy.*]
follow_imports = skip
ignore_missing_imports = true
"""
pytest.importorskip("mypy", reason="mypy checks types")
pytest.importorskip("torch", reason="types of modules need PyTorch")


def lines_that_are_wrong() -> set[tuple[str, int]]:
    lines = enumerate(MISTAKES.read_text().splitlines(), 1)
    return {(MISTAKES.name, number) for number, line in lines if line.endswith("# wrong")}


@pytest.fixture(scope="module")
def public_names(tmp_path_factory) -> Path:
    """A program that asks for the type of every public name."""
    path = tmp_path_factory.mktemp("names") / "user_public.py"
    path.write_text("import zenith\n" + "".join(f"reveal_type(zenith.{name})\n" for name in zenith.__all__))
    return path


@pytest.fixture(scope="module")
def messages(public_names, tmp_path_factory, request) -> list[dict]:
    """What ``mypy --strict`` says of all programs, read once, as it takes half a minute without its cache."""
    folder = tmp_path_factory.mktemp("mypy")
    (folder / "mypy.ini").write_text(CONFIG)
    cache = getattr(request.config, "cache", None)
    known = cache.mkdir("mypy") if cache is not None else folder / "cache"
    command = [sys.executable, "-m", "mypy", "--config-file", str(folder / "mypy.ini"), "--cache-dir", str(known)]
    command += ["--output", "json", str(PROGRAM), str(MISTAKES), str(public_names)]
    environment = os.environ | {"MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    assert done.returncode in (0, 1) and not done.stderr, done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def errors(messages: list[dict]) -> dict[tuple[str, int], str]:
    found = [m for m in messages if m["severity"] == "error"]
    return {(Path(m["file"]).name, m["line"]): m["message"] for m in found}


def test_a_users_program_has_the_types_that_it_says(messages):
    assert {place: why for place, why in errors(messages).items() if place[0] == PROGRAM.name} == {}


def test_mistakes_are_found(messages):
    found = {place for place in errors(messages) if place[0] == MISTAKES.name}
    assert found == lines_that_are_wrong() and len(found) > 20


def test_every_public_name_has_a_type(messages):
    """None is Any: each says at least which parameters it takes, or which class it is."""
    revealed = [m for m in messages if m["severity"] == "note" and m["file"].endswith("user_public.py")]
    types = {m["line"]: m["message"].removeprefix("Revealed type is ").strip('"') for m in revealed}
    assert len(types) == len(zenith.__all__)
    assert {name: types[line] for line, name in enumerate(zenith.__all__, 2) if types[line] == "Any"} == {}
    assert not [place for place in errors(messages) if place[0] == "user_public.py"]


def test_types_are_shipped_and_editable_installs_are_paths():
    """Type checkers follow paths, and not the hooks that setuptools installs where no ``package-dir`` is said."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert {"py.typed", "*.pyi"} <= set(tools["package-data"]["*"]) and (ROOT / "zenith" / "py.typed").exists()
    assert tools["package-dir"] == {"": "."}


def test_pyright_says_the_same(tmp_path):
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    program = shutil.which("pyright", path=beside) or shutil.which("basedpyright", path=beside)
    if program is None:
        pytest.skip("neither pyright nor basedpyright is installed")
    settings = {
        "include": [str(PROGRAM), str(MISTAKES)], "extraPaths": [str(ROOT)], "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
    }  # fmt: skip
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [program, "-p", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True)
    found = [d for d in json.loads(done.stdout)["generalDiagnostics"] if d["severity"] == "error"]
    wrong = {(Path(d["file"]).name, d["range"]["start"]["line"] + 1): d["message"] for d in found}
    assert {place: why for place, why in wrong.items() if place[0] == PROGRAM.name} == {}
    assert {place for place in wrong if place[0] == MISTAKES.name} == lines_that_are_wrong()
