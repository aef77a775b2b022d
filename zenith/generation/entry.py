"""``generate``: sequences that a causal language model continues."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack, overload

from zenith.generation.generator import Generator
from zenith.generation.options import Options

Ids = TypeVar("Ids")


@overload
def generate(
    model: object, ids: Sequence[int], max_new_tokens: int = 20, *, precision: str = "exact", **options: Unpack[Options]
) -> list[int]: ...
@overload
def generate(
    model: object, ids: Sequence[Sequence[int]], max_new_tokens: int = 20, *, precision: str = "exact",
    **options: Unpack[Options],
) -> list[list[int]]: ...  # fmt: skip
@overload
def generate(
    model: object, ids: Sequence[Ids], max_new_tokens: int = 20, *, precision: str = "exact", **options: Unpack[Options]
) -> list[Ids]: ...
@overload
def generate(
    model: object, ids: Ids, max_new_tokens: int = 20, *, precision: str = "exact", **options: Unpack[Options]
) -> Ids: ...
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
    assistant_model: object = None,
    num_assistant_tokens: int | None = None,
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
    assistant_model: a faster model of the same vocabulary, such as this one quantised, or a Generator of it. The tokens
        that it would choose next are read all at once, and those are kept that are chosen: the same choices; for one
        prompt.
    num_assistant_tokens: how many tokens of the assistant's a step reads at most, 5 unless given.
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
    return Generator.of(model, precision).generate(
        ids, max_new_tokens, attention_mask=attention_mask, temperature=temperature, top_k=top_k, top_p=top_p,
        repetition_penalty=repetition_penalty, stop=stop, seed=seed,
        prompt_lookup_num_tokens=prompt_lookup_num_tokens, assistant_model=assistant_model,
        num_assistant_tokens=num_assistant_tokens,
    )  # fmt: skip
