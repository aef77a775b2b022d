"""The options of generation, and the checks of a single one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from zenith.errors import ArgumentError, user_line

_PROPOSED = 5  # tokens that an assistant proposes for a step, unless a call says how many


class Options(TypedDict, total=False):
    """The options of :func:`zenith.generate`, where they are described."""

    attention_mask: object
    stop: Sequence[int] | int | None
    seed: int | None
    temperature: float
    top_k: int | None
    top_p: float | None
    repetition_penalty: float
    prompt_lookup_num_tokens: int | None
    assistant_model: object
    num_assistant_tokens: int | None


def proposed(options: Options, batch: int) -> int:
    """How many tokens at most are proposed for a step: 0 where nothing proposes any."""
    looked_up, drafted = options.get("prompt_lookup_num_tokens"), options.get("num_assistant_tokens")
    assisted = options.get("assistant_model") is not None
    for name, most in (("prompt_lookup_num_tokens", looked_up), ("num_assistant_tokens", drafted)):
        check(name, most, most is None or (is_whole(most) and most >= 1), "a number of tokens")
    check("num_assistant_tokens", drafted, drafted is None or assisted, "an assistant_model, too")
    check("prompt_lookup_num_tokens", looked_up, looked_up is None or not assisted, "one of it and assistant_model")
    if batch > 1 and (assisted or looked_up):
        raise ArgumentError(
            f"{'assistant_model' if assisted else 'prompt_lookup_num_tokens'} is for one prompt, and there are {batch}",
            where=user_line(), fix="leave it out, or generate for one prompt after the other",
        )  # fmt: skip
    return (drafted or _PROPOSED) if assisted else looked_up or 0


def check(name: str, value: object, fits: bool, wanted: str) -> None:
    """ArgumentError for an option that does not fit."""
    if not fits:
        raise ArgumentError(f"{name} is {value!r}", where=user_line(), fix=f"give {wanted}")


def is_whole(value: object) -> bool:
    """Whether an option is a whole number, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_real(value: object) -> bool:
    """Whether an option is a real number, and no truth value."""
    return is_whole(value) or isinstance(value, float | np.floating)
