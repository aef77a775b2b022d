"""Settings: what is no setting and what is no value of one is said at once, in Python and in the environment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from zenith.config import FURTHER, PREFIX, Config, ConfigError, ConfigWarning, warn_of_misspelt
from zenith.errors import MissingAttributeError

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(("name", "near"), [("cach", "cache"), ("engine", "engines"), ("caches_dir", "cache_dir")])
def test_a_setting_that_there_is_not(name: str, near: str) -> None:
    with pytest.raises(MissingAttributeError, match=rf"no setting {name}(.|\n)*did you mean .*{near}") as found:
        setattr(Config(), name, False)
    assert isinstance(found.value, AttributeError)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cache", "0", "must be True or False"),
        ("debug", 1, "must be True or False"),
        ("executables", "3", "must be an integer of at least 1"),
        ("executables", 0, "must be an integer of at least 1"),
        ("cache_bytes", True, "must be an integer of at least 1"),
        ("cache_dir", 3, "must be a path"),
        ("tuning", 3, "must be a path"),
        ("engines", (1,), "must be a tuple of names"),
        ("engines", None, "must be a tuple of names"),
    ],
)
def test_values_that_a_setting_cannot_have(name: str, value: Any, said: str) -> None:
    config = Config()
    before = getattr(config, name)
    with pytest.raises(ConfigError, match=f"is no value for the setting {name}(.|\n)*it {said}"):
        setattr(config, name, value)
    assert getattr(config, name) == before


def test_values_that_settings_have() -> None:
    config = Config()
    config.cache, config.executables, config.tuning = False, 3, None
    setattr(config, "cache_dir", "folder")  # noqa: B010  typed as a Path, and taken as any path
    setattr(config, "engines", "cudnn, -winograd")  # noqa: B010
    assert config == Config(cache=False, executables=3, cache_dir=Path("folder"), engines=("cudnn", "-winograd"))


@pytest.mark.parametrize(("name", "near"), [("CAHCE", "CACHE"), ("THREADS", "NUM_THREADS"), ("GRAPH", "GRAPHS")])
def test_misspelt_variables(name: str, near: str) -> None:
    with pytest.warns(ConfigWarning, match=rf"{PREFIX}{name}\n  fix: did you mean {PREFIX}{near}\?"):
        warn_of_misspelt([PREFIX + name])


def test_other_variables_are_let_alone() -> None:
    known = [PREFIX + name for name in (*FURTHER, *(setting.name.upper() for setting in fields(Config)))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_misspelt([*known, "CAHCE", "XENITH_CAHCE", PREFIX + "TELESCOPE", PREFIX])


def test_every_variable_that_is_read_is_known() -> None:
    files = [path for folder in ("zenith", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in [*files, ROOT / "Makefile"] if path != Path(__file__)]
    read = {name for text in texts for name in re.findall(PREFIX + r"([A-Z_]+)\b", text)}
    assert read - {"NAME", "CAHCE"} <= {*FURTHER, *(setting.name.upper() for setting in fields(Config))}


def test_a_misspelt_variable_is_reported_once_at_import() -> None:
    code = "import zenith, zenith.config"
    environment = {**os.environ, "ZENITH_CAHCE": "0", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("nothing reads the environment variable ZENITH_CAHCE") == 1
