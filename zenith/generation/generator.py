"""The programs that generate with one model: a step for a whole prompt, and one for each token that follows.

Both are the same function, :class:`~zenith.torch.decoder.Decoder`, compiled for many tokens and for one; prompts,
lengths and batches of any sizes run the programs that there are. A batch of one sequence has programs of its own, since
a product by a matrix then reads that matrix once and computes little.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from zenith.api.jit import Jitted, jit
from zenith.errors import ArgumentError, UnsupportedError, ValueTypeError, ZenithError, user_line
from zenith.generation.decoding import Cache, Decoding, Request
from zenith.generation.prompts import Prompts
from zenith.generation.sampling import Options, Sampling
from zenith.ir.types import NDArray
from zenith.quantization.modules import ModuleFunction
from zenith.quantization.quantized import Quantized

if TYPE_CHECKING:
    from zenith.torch.decoder import CacheArray


class Generator:
    """Generates with one causal language model, whose programs it keeps: what :func:`zenith.generate` makes.

    ``step`` is the compiled function, for ``explain()`` and the like: of ids, a mask, positions and a cache. It follows
    changes of the model's weights, between sequences, without being compiled again. Safe to use from several threads.

    Parameters
    ----------
    model: a causal language model of Hugging Face's, one that :func:`zenith.quantize` made of it, or the folder of a
        checkpoint.
    precision: ``"bf16"`` or ``"fp16"`` rounds the operands of products, as for :func:`zenith.jit`.
    release_weights: after the first sequence keep weights in the form in which products read them only. Another
        kind of batch (of one sequence, of several) then raises an error.
    """

    def __init__(self, model: object, *, precision: str = "exact", release_weights: bool = False) -> None:
        self._model, self._quantized = _model_of(model)
        self._releases, self._precision = release_weights, precision
        self._make()

    def _make(self) -> None:
        """The step of the model as it is now."""
        from zenith.torch import CompiledModule
        from zenith.torch.decoder import Decoder

        decoder = Decoder(self._model)
        self._arrays = decoder.cache_arrays()
        self._compiled = CompiledModule(decoder, None, None)
        function = self._function = self._compiled.captured()

        def step(ids: NDArray, mask: NDArray, positions: NDArray, cache: Cache) -> NDArray:
            """The logits of the next token; the cache gets the keys and values of ``ids``."""
            logits, written = function(ids, mask, positions, cache)
            for arrays, contents in zip(cache, written, strict=True):
                for array, content in zip(arrays, contents, strict=True):
                    array[...] = content
            return logits

        self.step: Jitted = jit(step, precision=self._precision)
        if self._quantized is not None:
            self.step = Jitted(*self.step.made_with(self._quantized._passes))

    def generate(self, ids: object, max_new_tokens: int = 20, **options: Unpack[Options]) -> object:
        """Prompts and what follows them: see :func:`zenith.generate`."""
        call = self._begin(ids, max_new_tokens, options)
        for _ in self._tokens(call):
            pass
        return call.sequences()

    def stream(self, ids: object, max_new_tokens: int = 20, **options: Unpack[Options]) -> Iterator[NDArray]:
        """The tokens [batch] that follow prompts, as they come; where a sequence has ended, the padding token.

        The arguments are those of :func:`zenith.generate`, and are checked at once.
        """
        return self._tokens(self._begin(ids, max_new_tokens, options))

    def _tokens(self, call: Decoding) -> Iterator[NDArray]:
        steps = 0
        for tokens in call:
            steps += 1
            yield tokens
        if steps > 1:  # both programs are there
            self._settle()

    def _begin(self, ids: object, max_new_tokens: int, options: Options) -> Decoding:
        if self._model.training:
            raise ArgumentError("the model is in training mode, in which it may drop values at random",
                                where=user_line(), fix="call model.eval() first")  # fmt: skip
        if not isinstance(max_new_tokens, int | np.integer) or max_new_tokens < 1:
            raise ArgumentError(f"max_new_tokens is {max_new_tokens!r}", where=user_line(), fix="give 1 or more")
        prompts = Prompts.of(ids, options.get("attention_mask"), self._model.config.vocab_size)
        ends, pad = _special(self._model, options.get("stop"))
        request = Request(prompts, int(max_new_tokens), Sampling.of(options), options.get("seed"), ends, pad)
        self._check_positions(request)
        if self._quantized is not None and self._function.has_changed:
            raise ZenithError("the model's weights have changed since it was quantised", where=user_line(),
                              fix="quantise it again: zenith.quantize(model, ...)")  # fmt: skip
        if not self._function.follow():
            self._make()
        batch = len(prompts.ids)
        cache = [(_zeros(k, request.length, batch), _zeros(v, request.length, batch)) for k, v in self._arrays]
        return Decoding(request, partial(self._logits, cache))

    def _check_positions(self, request: Request) -> None:
        """ArgumentError for more tokens than the model has positions."""
        most, longest = getattr(self._model.config, "max_position_embeddings", None), request.prompts.mask.sum(1).max()
        if most is not None and longest + request.most - 1 > most:  # the last token is never read
            raise ArgumentError(
                f"{longest} tokens and {request.most} new ones are more than the model's {most} positions",
                where=user_line(), fix="give a shorter prompt",
            )  # fmt: skip

    def _logits(self, cache: Cache, ids: NDArray, mask: NDArray) -> NDArray:
        """The logits that follow the last of ``ids``, [batch, count], of the tokens in ``mask`` [batch, time]."""
        time, count = mask.shape[1], ids.shape[1]
        positions = np.maximum(np.cumsum(mask, 1)[:, time - count :] - 1, 0)
        found: NDArray = self.step(ids, mask, positions, [(k[:time], v[:time]) for k, v in cache])
        return found.astype(np.float32, copy=False)  # of a model in 16 bits

    def _settle(self) -> None:
        """Release weights, if that was asked for, once the programs of a call are there."""
        if self._releases:
            self._releases = False
            if self._quantized is None:
                self._compiled.release_weights()
            else:
                self._quantized.release()
                self._compiled.release_weights(self._quantized._quantizer.table)
            gc.collect()  # traces are cycles, and hold arrays


def _model_of(model: object) -> tuple[Any, Quantized | None]:
    """The PyTorch model, and what quantises it, if anything does."""
    if isinstance(model, str | PathLike):
        from zenith.torch.checkpoints import from_folder

        model = from_folder(model)
    quantized = model if isinstance(model, Quantized) else None
    if quantized is not None:
        function = quantized.function
        if not isinstance(function, ModuleFunction):
            raise UnsupportedError(f"{quantized.__name__} is a quantised function, and no language model",
                                   where=user_line(), fix="quantise the model: zenith.quantize(model)")  # fmt: skip
        model = function.module
        if model is None:
            raise ZenithError(f"{quantized.__name__} has released its weights", where=user_line(),
                              fix="generate before you call it, or quantise without release_weights")  # fmt: skip
    can = getattr(model, "can_generate", lambda: True)()
    if not (can and hasattr(model, "forward") and hasattr(getattr(model, "config", None), "vocab_size")):
        raise ValueTypeError(f"generate takes a causal language model of Hugging Face's, not a {type(model).__name__}",
                             where=user_line(), fix="load one by AutoModelForCausalLM")  # fmt: skip
    own: Any = model
    device = next(own.parameters()).device
    if device.type not in ("cpu", "meta"):
        raise UnsupportedError(f"the model is on {device}, and its cache is one of the CPU", where=user_line(),
                               fix='move it: model.to("cpu")')  # fmt: skip
    return own, quantized


def _zeros(array: CacheArray, length: int, batch: int) -> NDArray:
    """Memory for an array of the cache."""
    return np.zeros((length, batch, array.heads, array.columns), array.dtype.numpy)


def _special(model: Any, stop: Sequence[int] | int | None) -> tuple[frozenset[int], int]:
    """The tokens that end a sequence, and the one that pads it."""
    known = getattr(model, "generation_config", None) or model.config
    stop = getattr(known, "eos_token_id", None) if stop is None else stop
    ends = [] if stop is None else [stop] if isinstance(stop, int | np.integer) else list(stop)
    if not all(isinstance(end, int | np.integer) for end in ends):
        raise ArgumentError(f"stop is {stop!r}", where=user_line(), fix="give the ids of tokens: stop=[2]")
    pad = getattr(known, "pad_token_id", None)
    return frozenset(map(int, ends)), int(pad if pad is not None else ends[0] if ends else 0)
