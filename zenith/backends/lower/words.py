"""Words of generated kernels: names that printers write themselves, so that neither loops nor sizes can have them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from keyword import iskeyword

from zenith.backends.scalars import NAMESPACE
from zenith.errors import ZenithError

RESERVED = {"begin", "end", "args", "status", "kernel", "frame", "launch", "range", "max", "min"}
RESERVED |= {"tasks", "task", "stride", "lane", "distance", "cuda", "lanes", "join", "run_along"}
RESERVED |= {"is_upper", "team", "element", "iteration", "warp", "ticket"}
RESERVED |= {"register_row", "register_column", "register_joined"}
_BUFFER = re.compile(
    r"(p|out|staged)\d+|tile_\w+|fft_\w+|running\d*(_\w+)?|"
    r"\w+_(strip|first|last|before|chunk|inside|left|warps|factors|resident)\d*"
)  # a body's inputs and outputs, and printers' own
WORDS = RESERVED | NAMESPACE.keys()


def is_word(name: str) -> bool:
    """Whether generated kernels use a name themselves, so that no size can have it."""
    return name in WORDS or iskeyword(name) or _BUFFER.fullmatch(name) is not None


def refuse_words(symbols: Sequence[str]) -> None:
    """Refuse sizes whose names kernels use."""
    for name in symbols:
        if is_word(name):
            raise ZenithError(
                f"a size is called {name!r}, which is a word of generated kernels", fix="give the size another name"
            )
