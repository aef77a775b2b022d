"""The programs that generate with one model: a step for a whole prompt, and one for each token that follows.

Both are the same function, :class:`~zenith.torch.decoder.Decoder`, compiled for many tokens and for one; prompts,
lengths and batches of any sizes run the programs that there are. A batch of one sequence has programs of its own, since
a product by a matrix then reads that matrix once and computes little.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, TypeVar, Unpack, overload

import numpy as np

from zenith.api.compilable import Compilable
from zenith.errors import ArgumentError, UnsupportedError, ValueTypeError, ZenithError, user_line
from zenith.generation.decoding import Decoding, Logits, Propose, Request
from zenith.generation.draft import Draft
from zenith.generation.lookup import looked_up
from zenith.generation.options import Options, check, is_whole, proposed
from zenith.generation.prompts import Prompts
from zenith.generation.sampling import Sampling
from zenith.generation.steps import Step, Steps
from zenith.ir.types import NDArray
from zenith.quantization.modules import ModuleFunction
from zenith.quantization.quantized import Quantized

Ids = TypeVar("Ids")


class Generator:
    """Generates with one causal language model, whose programs it keeps: what :func:`zenith.generate` makes.

    ``step`` is the compiled function, for ``explain()`` and the like: of ids, a mask, positions and a cache. It follows
    changes of the model's weights, and of its active adapters by LoRA, between sequences without being compiled again;
    in the middle of one they are a ZenithError. Safe to use from several threads.

    Parameters
    ----------
    model: a causal language model of Hugging Face's, one that :func:`zenith.quantize` made of it, or the folder of a
        checkpoint, or a file in GGUF. Levels of few bits (GPTQ, AWQ, GGUF) stay as they are.
    precision: ``"bf16"`` or ``"fp16"`` rounds the operands of products, as for :func:`zenith.jit`.
    release_weights: after the first sequence keep weights in the form in which products read them only. Another
        kind of batch (of one sequence, of several) then raises an error.
    """

    def __init__(self, model: object, *, precision: str = "exact", release_weights: bool = False) -> None:
        self._given, self._quantized = model_of(model)
        self._releases, self._precision = release_weights, precision
        self._make()

    @classmethod
    def of(cls, model: object, precision: str = "exact") -> Generator:
        """The one that is kept with a model in memory, as long as that lives."""
        if isinstance(model, str | PathLike):
            raise ValueTypeError(f"generate takes a model, and {str(model)!r} is a name", where=user_line(),
                                 fix="keep what a checkpoint has: generator = zenith.Generator(path)")  # fmt: skip
        model_of(model)
        known = _Kept.of(model).by_precision
        if not isinstance(precision, str) or precision not in known:
            known[precision] = cls(model, precision=precision)
        return known[precision]

    def _make(self) -> None:
        from zenith.torch.decoder import without_wrapper

        self._model = without_wrapper(self._given)
        self._steps = Steps(self._model, self._quantized, self._precision)
        self.step = self._steps.current().run

    def _step(self) -> Step:
        """The step of the model as it is now."""
        from zenith.torch.decoder import without_wrapper

        if without_wrapper(self._given) is not self._model:
            self._make()
        step = self._steps.current()
        self.step = step.run
        return step

    @overload
    def generate(self, ids: Sequence[int], max_new_tokens: int = 20, **options: Unpack[Options]) -> list[int]: ...
    @overload
    def generate(
        self, ids: Sequence[Sequence[int]], max_new_tokens: int = 20, **options: Unpack[Options]
    ) -> list[list[int]]: ...
    @overload
    def generate(self, ids: Sequence[Ids], max_new_tokens: int = 20, **options: Unpack[Options]) -> list[Ids]: ...
    @overload
    def generate(self, ids: Ids, max_new_tokens: int = 20, **options: Unpack[Options]) -> Ids: ...
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
        yield from call
        if call.ran_all:
            self._settle()

    def _begin(self, ids: object, max_new_tokens: int, options: Options) -> Decoding:
        check("max_new_tokens", max_new_tokens, is_whole(max_new_tokens) and max_new_tokens >= 1, "1 or more")
        prompts = Prompts.of(ids, options.get("attention_mask"), self._model.config.vocab_size)
        ends, pad = _special(self._model, options.get("stop"))
        sampling, count = Sampling.of(options), proposed(options, len(prompts.ids))
        request = Request(prompts, int(max_new_tokens), sampling, options.get("seed"), ends, pad, count)
        return Decoding(request, self._logits(request), self._propose(options.get("assistant_model"), request))

    def _logits(self, request: Request) -> Logits:
        """The model as it is now, with memory for a whole sequence."""
        if self._model.training:
            raise ArgumentError("the model is in training mode, in which it may drop values at random",
                                where=user_line(), fix="call model.eval() first")  # fmt: skip
        self._check_positions(request)
        step = self._step()
        return partial(step.logits, step.cache(request.length, len(request.prompts.ids)))

    def _propose(self, assistant: object, request: Request) -> Propose:
        """What proposes tokens: the sequence itself, or another model of the same vocabulary."""
        if assistant is None:
            return looked_up
        other = assistant if isinstance(assistant, Generator) else Generator.of(assistant)
        own, found = self._model.config.vocab_size, other._model.config.vocab_size
        if own != found:
            raise ArgumentError(f"the assistant_model has {found} tokens, and the model {own}", where=user_line(),
                                fix="give one of the same vocabulary")  # fmt: skip
        return Draft(other._logits(request))

    def _check_positions(self, request: Request) -> None:
        """ArgumentError for more tokens than the model has positions."""
        most = getattr(self._model.config, "max_position_embeddings", None)
        longest = int(request.prompts.mask.sum(1).max())
        if most is not None and longest + request.most - 1 > most:  # the last token is never read
            raise ArgumentError(
                f"{longest} tokens and {request.most} new ones are more than the model's {most} positions",
                where=user_line(), fix="give a shorter prompt",
            )  # fmt: skip

    def _settle(self) -> None:
        """Release weights, if that was asked for, once the programs of a call are there."""
        if self._releases:
            self._releases = False
            self._steps.release()


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


def model_of(model: object) -> tuple[Any, Quantized | None]:
    """The PyTorch model, and what quantises it, if anything does; ValueTypeError for what is no language model."""
    if isinstance(model, str | PathLike):
        from zenith.torch.checkpoints import from_path

        model = from_path(model)
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
    own: Any = model
    if not _is_causal(own):
        raise ValueTypeError(f"generate takes a causal language model of Hugging Face's, not a {type(model).__name__}",
                             where=user_line(), fix="load one by AutoModelForCausalLM")  # fmt: skip
    device = next(own.parameters()).device
    if device.type not in ("cpu", "meta"):
        raise UnsupportedError(f"the model is on {device}, and its cache is one of the CPU", where=user_line(),
                               fix='move it: model.to("cpu")')  # fmt: skip
    return own, quantized


def _is_causal(model: Any) -> bool:
    """Whether a model is one that continues a sequence, by what it says of itself."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module) or isinstance(model, Compilable):
        return False
    config = getattr(model, "config", None)
    can = getattr(model, "can_generate", lambda: True)() and not getattr(config, "is_encoder_decoder", False)
    return can and hasattr(config, "vocab_size")


def _special(model: Any, stop: Sequence[int] | int | None) -> tuple[frozenset[int], int]:
    """The tokens that end a sequence, and the one that pads it."""
    known = getattr(model, "generation_config", None) or model.config
    stop = getattr(known, "eos_token_id", None) if stop is None else stop
    ends = [] if stop is None else list(stop) if isinstance(stop, Iterable) else [stop]
    if not all(isinstance(end, int | np.integer) for end in ends):
        raise ArgumentError(f"stop is {stop!r}", where=user_line(), fix="give the ids of tokens: stop=[2]")
    pad = getattr(known, "pad_token_id", None)
    return frozenset(map(int, ends)), int(pad if pad is not None else ends[0] if ends else 0)
