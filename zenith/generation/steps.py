"""The compiled step of a model: one for each state in which the model is used, such as with an adapter or without.

A step's programs follow other weights without being compiled again, also those of another adapter in the place of one
(:mod:`zenith.torch.adapters`). Other hooks or values of attributes are another state, whose step is kept.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from zenith.api.jit import Jitted, jit
from zenith.backends.cpu.heap import trim
from zenith.errors import ZenithError, user_line
from zenith.ir.types import NDArray
from zenith.quantization.quantized import Quantized

if TYPE_CHECKING:
    from zenith.torch.decoder import CacheArray
    from zenith.torch.functional import ModuleState
    from zenith.torch.programs import Mode

Cache = list[tuple[NDArray, NDArray]]  # keys and values of each layer


@dataclass(frozen=True, slots=True)
class Step:
    """A step, and the arrays of its cache; ``check`` raises where the model is not what it was in the beginning.

    ``run`` gives the logits after the last of its ids, ``run_every`` those after each.
    """

    run: Jitted
    run_every: Jitted
    arrays: list[tuple[CacheArray, CacheArray]]
    check: Callable[[], None]

    def cache(self, length: int, batch: int) -> Cache:
        """Memory for so many tokens of so many sequences."""
        return [(_zeros(k, length, batch), _zeros(v, length, batch)) for k, v in self.arrays]

    def logits(self, cache: Cache, ids: NDArray, mask: NDArray, every: bool = False) -> NDArray:
        """The logits that follow the last of ``ids``, [batch, count], of the tokens in ``mask`` [batch, time].

        Those after ``every`` one of them, [count, batch, tokens].
        """
        self.check()
        time, count = mask.shape[1], ids.shape[1]
        positions = np.maximum(np.cumsum(mask, 1)[:, time - count :] - 1, 0)
        found: NDArray = (self.run_every if every else self.run)(
            ids, mask, positions, [(k[:time], v[:time]) for k, v in cache]
        )
        return found.astype(np.float32, copy=False)  # of a model in 16 bits


class Steps:
    """The steps of a model, or of what quantises it."""

    def __init__(self, model: Any, quantized: Quantized | None, precision: str) -> None:
        from zenith.torch import CompiledModule
        from zenith.torch.decoder import Decoder

        self._quantized, self._precision = quantized, precision
        self._decoder = Decoder(model)
        self._compiled = CompiledModule(self._decoder, None, None)
        self._function = self._compiled.captured()
        self._made: WeakKeyDictionary[Mode, tuple[Jitted, Jitted, list[tuple[CacheArray, CacheArray]]]] = (
            WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def current(self) -> Step:
        """The step of the model as it is now."""
        self._refuse_changed()
        state = self._function.follow()
        with self._lock:
            if state.mode not in self._made:
                arrays = self._decoder.cache_arrays()
                state = self._function.follow()  # the model has run, and may have looked at its weights by NumPy
                self._made[state.mode] = self._step(False), self._step(True), arrays
            return Step(*self._made[state.mode], self._check_of(state))

    def _step(self, every: bool) -> Jitted:
        function = self._function

        def step(ids: NDArray, mask: NDArray, positions: NDArray, cache: Cache) -> NDArray:
            """The logits of the next token; the cache gets the keys and values of ``ids``."""
            logits, written = function(ids, mask, positions, cache, every)
            for arrays, contents in zip(cache, written, strict=True):
                for array, content in zip(arrays, contents, strict=True):
                    array[...] = content
            return logits

        made = jit(step, precision=self._precision)
        return made if self._quantized is None else Jitted(*made.made_with(self._quantized._passes))

    def _check_of(self, state: ModuleState) -> Callable[[], None]:
        """What raises ZenithError once the model is in another state: a cache goes with the weights that wrote it."""
        function = self._function
        unseen = function.has_changed  # at once again: nobody can see whether these weights are written to

        def check() -> None:
            self._refuse_changed()
            if not (unseen or function.is_as(state)):
                raise ZenithError(
                    "the model has changed in the middle of a sequence: its weights, its mode or attributes",
                    where=user_line(), fix="end the sequence first, or begin it again; a copy of the model can change",
                )  # fmt: skip

        return check

    def _refuse_changed(self) -> None:
        """ZenithError for a quantised model whose weights are not those of its levels any more."""
        if self._quantized is not None and self._function.has_changed:
            raise ZenithError("the model's weights have changed since it was quantised", where=user_line(),
                              fix="quantise it again: zenith.quantize(model, ...)")  # fmt: skip

    def release(self) -> None:
        """Keep weights in the form in which programs read them only."""
        if self._quantized is None:
            self._compiled.release_weights()
        else:
            self._quantized.release()
            self._compiled.release_weights(self._quantized._quantizer.table)
        gc.collect()  # traces are cycles, and hold arrays
        trim()


def _zeros(array: CacheArray, length: int, batch: int) -> NDArray:
    """Memory for an array of the cache."""
    return np.zeros((length, batch, array.heads, array.columns), array.dtype.numpy)
