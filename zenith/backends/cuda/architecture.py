"""Names of architectures that Zenith compiles for, and their compute capabilities."""

from __future__ import annotations

import re
from typing import Any

from zenith.errors import UnsupportedError


def capability(arch: str) -> tuple[Any, ...]:
    """An architecture in Numba-CUDA's notation: ``sm_90a`` is (9, 0, "a")."""
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    if match is None or int(match[1]) < 7:
        raise UnsupportedError(
            f"there is no architecture {arch!r} that Zenith compiles for",
            fix="write sm_ and a compute capability of at least 7.5: sm_75, sm_80, sm_90a",
        )
    major, minor, suffix = match.groups()
    return (int(major), int(minor), *([suffix] if suffix else []))
