"""References in docstrings (:mod:`x`, :class:`x`, :func:`x`, :meth:`x`) name what is there."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
REFERENCE = re.compile(r":(?:mod|class|func|meth|data|attr|exc):`~?\.?([\w.]+?)(?:\(\))?`")
FILES = sorted(p for p in (ROOT / "zenith").rglob("*.py") if REFERENCE.search(p.read_text(encoding="utf-8")))


def broken_references(module: str, text: str) -> list[str]:
    """The references of a module's text that no name answers: neither its own, nor one of its classes', nor another."""
    return [name for name in REFERENCE.findall(text) if not any(map(_exists, _candidates(module, text, name)))]


def _candidates(module: str, text: str, name: str) -> Iterator[str]:
    yield name
    yield f"{module}.{name}"
    yield f"{module.rpartition('.')[0]}.{name}"
    yield from (f"{module}.{found}.{name}" for found in re.findall(r"^class (\w+)", text, re.MULTILINE))


def _exists(name: str) -> bool:
    """Whether a dotted name is a module, or what is reached from one by attributes."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for attribute in parts[length:]:
            if not hasattr(found, attribute):
                return False
            found = getattr(found, attribute)
        return True
    return False


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_docstrings_refer_to_exists(path: Path) -> None:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    assert broken_references(module, path.read_text(encoding="utf-8")) == []


def test_a_broken_reference_is_found() -> None:
    text = 'class Kernel:\n    """See :class:`Kernel`, :func:`zenith.jit`, :mod:`zenith.absent` and :func:`gone`."""\n'
    assert broken_references("zenith.backends.kernel", text) == ["zenith.absent", "gone"]
