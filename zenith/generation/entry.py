"""``generate``: sequences that a causal language model continues."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from os import PathLike
from typing import Any

from zenith.errors import ValueTypeError, user_line
from zenith.generation.generator import Generator, model_of


class _Kept:
    """The generators of a model by precision, among its attributes, so that they live as long; copies have none."""

    NAME = "_zenith_generators"

    def __init__(self, model: object) -> None:
        self._model = weakref.ref(model)
        self.by_precision: dict[str, Generator] = {}

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    @classmethod
    def of(cls, model: object) -> _Kept:
        """Those of a model."""
        known = getattr(model, "__dict__", {}).get(cls.NAME)
        if not isinstance(known, cls) or known._model() is not model:  # a shallow copy has that of the original
            known = cls(model)
            if hasattr(model, "__dict__"):
                model.__dict__[cls.NAME] = known
        return known


def generate(
    model: object,
    ids: object,
    max_new_tokens: int = 20,
    *,
    attention_mask: object = None,
    temperature: float = 0.0,
    top_k: int | None = None,
    top_p: float | None = None,
    repetition_penalty: float = 1.0,
    stop: Sequence[int] | int | None = None,
    seed: int | None = None,
    prompt_lookup_num_tokens: int | None = None,
    precision: str = "exact",
) -> Any:
    """Continue prompts by a causal language model, token by token over a cache of keys and values.

    Parameters
    ----------
    model: a causal language model of Hugging Face's (``transformers``), or one that :func:`zenith.quantize` made of it.
        Its programs are kept as long as it lives; a :class:`~zenith.generation.Generator` has them in hand, and also
        takes the folder of a checkpoint or a file in GGUF.
    ids: prompts, integers [batch, length] or [length] of any library; or a list of prompts of any lengths.
    max_new_tokens: how many tokens follow at most.
    attention_mask: [batch, length], 0 for ids that pad a prompt; for ids in an array.
    temperature: 0 takes the most likely token, more draws one: 1 by the model's probabilities, less likelier ones.
    top_k, top_p: draw among so many of the likeliest tokens; among those that have this share of the probability.
    repetition_penalty: more than 1 makes tokens less likely that are there already.
    stop: the tokens that end a sequence, instead of the model's own; ``()`` for none.
    seed: of the draws, for equal ones in every call.
    prompt_lookup_num_tokens: read so many tokens at once at most, which followed the last ones before in the sequence,
        and keep those that are chosen: the same choices in fewer steps where text repeats itself; for one prompt.
    precision: ``"bf16"`` or ``"fp16"`` rounds the operands of products, as for :func:`zenith.jit`.

    Options of sampling in the model's ``generation_config`` do not count; its tokens that end and pad do.

    Returns
    -------
    The prompts with what follows them, in the kind of ``ids``: an array [batch, length + count], where sequences that
    ended early are padded, or a list of sequences without padding.

    Raises
    ------
    ArgumentError, ValueTypeError: ids outside of the vocabulary, options that there are not, more tokens than the model
    has positions. UnsupportedError: a model whose cache is another one than of keys and values.

    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> sizes = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, vocab_size=99)
    >>> model = LlamaForCausalLM(LlamaConfig(**sizes)).eval()
    >>> found = generate(model, [[1, 15, 7], [1, 9]], max_new_tokens=4, stop=())
    >>> [len(sequence) for sequence in found]
    [7, 6]
    """
    if isinstance(model, str | PathLike):
        raise ValueTypeError(f"generate takes a model, and {str(model)!r} is a name", where=user_line(),
                             fix="keep what a checkpoint has: generator = zenith.Generator(path)")  # fmt: skip
    model_of(model)
    known = _Kept.of(model).by_precision
    if not isinstance(precision, str) or precision not in known:
        known[precision] = Generator(model, precision=precision)
    return known[precision].generate(
        ids, max_new_tokens, attention_mask=attention_mask, temperature=temperature, top_k=top_k, top_p=top_p,
        repetition_penalty=repetition_penalty, stop=stop, seed=seed,
        prompt_lookup_num_tokens=prompt_lookup_num_tokens,
    )  # fmt: skip
