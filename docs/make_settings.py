"""Makes docs/settings.md from the record of settings: each environment variable with its default and its meaning."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # run as a script, only docs/ would be there

from zenith.config import PREFIX, Config  # noqa: E402

ATTRIBUTE = re.compile(r"^(\w+): (.*?)(?=^\w+: |\Z)", re.DOTALL | re.MULTILINE)
INTRODUCTION = """# Settings

Environment variables are read once, when `zenith` is imported. `zenith.config` has the same settings as attributes,
which may be assigned at any time: `zenith.config.debug = True`.

| variable | default | meaning |
|---|---|---|
"""
DEFAULTS = {"cache_dir": "`~/.cache/zenith`", "progress": "`auto`"}  # as the environment says them
TEAM = (
    ("NUM_THREADS", "the cores that the process may use",
     "how many threads kernels share; `zenith.set_num_threads(n)` changes it at any time."),
    ("ISA", "what the processor has",
     "the instruction set of kernels, `avx512`, `avx2` or `portable`: less than the processor has, for comparisons."),
)  # fmt: skip


def settings() -> str:
    """The whole document."""
    lines = [*(_line(*row) for row in _settings()), *(_line(*row) for row in TEAM)]
    return INTRODUCTION + "\n".join(lines) + "\n"


def _settings() -> Iterator[tuple[str, str, str]]:
    meanings = dict(ATTRIBUTE.findall(inspect.getdoc(Config).partition("----------\n")[2]))
    for setting in fields(Config):
        yield setting.name.upper(), _default(setting), " ".join(meanings[setting.name].split()).replace("``", "`")


def _default(setting: Field[object]) -> str:
    if setting.name in DEFAULTS:
        return DEFAULTS[setting.name]
    value = setting.default
    if value is MISSING:
        raise ValueError(f"say what the default of {setting.name} is")
    return "`" + str(int(value) if isinstance(value, bool) else value) + "`" if value not in (None, ()) else "none"


def _line(name: str, default: str, meaning: str) -> str:
    return f"| `{PREFIX}{name}` | {default} | {meaning} |"


if __name__ == "__main__":
    (ROOT / "docs" / "settings.md").write_text(settings(), encoding="utf-8")
