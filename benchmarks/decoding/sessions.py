"""Who generates: for each contender and precision a session, which takes ids and gives the next token's logits."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, Any]
THREADS = 2
GROUP = 64  # weights with one scale
PER_WEIGHT = {"float32": 4.0, "bf16": 2.0, "int8": 1 + 4 / GROUP, "int4": 0.5 + 4 / GROUP}  # bytes of Zenith's weights
QUANTISED: dict[str, dict[str, Any]] = {
    name: {"bits": bits, "granularity": f"group:{GROUP}", "symmetric": True}
    for name, bits in (("int8", 8), ("int4", 4))
}
FILES = {"float32": "f32", "bf16": "bf16", "int8": "q8_0", "int4": "q4_0"}  # of llama.cpp


class Session(Protocol):
    """A sequence of one model."""

    @property
    def bytes(self) -> int | None:
        """Those of the weights that a token reads, where they are known."""
        ...

    def reset(self, length: int) -> None:
        """Begin a sequence of at most so many tokens."""
        ...

    def feed(self, ids: Array) -> Array:
        """Append ids [count], and give the logits [tokens] of what follows."""
        ...


class Zenith:
    """``zenith.Generator``, of the model or of what ``zenith.quantize`` makes of it."""

    def __init__(self, folder: Path, precision: str) -> None:
        import zenith

        model = _torch_model(folder)
        self.bytes = round(weights_of(model) * PER_WEIGHT[precision])
        if precision in QUANTISED:
            model = zenith.quantize(model, scheme="weight_only", **QUANTISED[precision])
        self._generator = zenith.Generator(
            model, precision="bf16" if precision == "bf16" else "exact", release_weights=True
        )

    def reset(self, length: int) -> None:
        self._step = self._generator._step()
        self._cache = self._step.cache(length, 1)
        self._time = 0

    def feed(self, ids: Array) -> Array:
        self._time += len(ids)
        found: Array = self._step.logits(self._cache, ids[None], np.ones((1, self._time), np.int64))[0]
        return found

    def settle(self) -> None:
        """All programs are there: the model's own weights are of no use any more."""
        self._generator._settle()


class Torch:
    """PyTorch, eager with its dynamic cache, or compiled by inductor with a static one."""

    def __init__(self, folder: Path, precision: str, compiled: bool = False) -> None:
        import torch

        from zenith.torch.decoder import cache_keyword

        torch.set_num_threads(THREADS)
        self._model = _torch_model(folder).to({"float32": torch.float32, "bf16": torch.bfloat16}[precision])
        self.bytes = weights_of(self._model) * (4 if precision == "float32" else 2)
        self._step = torch.compile(self._model.forward) if compiled else self._model.forward
        self._compiled, self._keyword = compiled, cache_keyword(self._model)

    def reset(self, length: int) -> None:
        from transformers import DynamicCache, StaticCache

        self._time = 0
        config = self._model.config
        self._cache: Any = StaticCache(config, max_cache_len=length) if self._compiled else DynamicCache(config=config)

    def feed(self, ids: Array) -> Array:
        import torch

        step = self._step if len(ids) == 1 else self._model.forward
        positions = torch.arange(self._time, self._time + len(ids))[None]
        with torch.inference_mode():
            result = step(torch.from_numpy(ids)[None], **{self._keyword: self._cache}, position_ids=positions,
                          use_cache=True, logits_to_keep=1)  # fmt: skip
            self._time += len(ids)
            found: Array = result.logits[0, -1].float().numpy()
        return found


class OpenVino:
    """OpenVINO, of what optimum-intel exported (:mod:`benchmarks.decoding.export`)."""

    bytes = None

    def __init__(self, folder: Path, precision: str) -> None:
        import openvino

        stored = {"float32": "float32", "bf16": "float32"}.get(precision, precision)
        options = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY"}
        options |= {"INFERENCE_PRECISION_HINT": "f32"} if precision == "float32" else {}
        options |= {"INFERENCE_PRECISION_HINT": "bf16"} if precision == "bf16" else {}
        path = folder / f"openvino-{stored}" / "openvino_model.xml"
        self._request = openvino.Core().compile_model(str(path), "CPU", options).create_infer_request()

    def reset(self, length: int) -> None:
        self._request.reset_state()
        self._time = 0

    def feed(self, ids: Array) -> Array:
        positions = np.arange(self._time, self._time + len(ids))[None]
        self._time += len(ids)
        mask, beam = np.ones((1, self._time), np.int64), np.zeros(1, np.int32)
        self._request.infer(
            {"input_ids": ids[None], "attention_mask": mask, "position_ids": positions, "beam_idx": beam}
        )
        found: Array = self._request.get_tensor("logits").data[0, -1].copy()
        return found


class LlamaCpp:
    """llama.cpp, by its Python bindings, of a file that :mod:`benchmarks.decoding.gguf_file` wrote."""

    bytes = None

    def __init__(self, folder: Path, precision: str) -> None:
        import llama_cpp

        self._options = {
            "model_path": str(folder / f"{FILES[precision]}.gguf"), "n_threads": THREADS, "n_ctx": 1024,
            "n_threads_batch": THREADS, "n_batch": 512, "verbose": False,
        }  # fmt: skip
        with open(os.devnull, "w") as nothing, contextlib.redirect_stderr(nothing):
            self._model: Any = llama_cpp.Llama(**self._options)

    def reset(self, length: int) -> None:
        self._model.reset()

    def feed(self, ids: Array) -> Array:
        self._model.eval(ids.tolist())
        tokens = self._model.n_vocab()
        found = np.ctypeslib.as_array(self._model._ctx.get_logits_ith(-1), shape=(tokens,))
        return np.array(found)


PRECISIONS = ("float32", "bf16", "int8", "int4")
SESSIONS: dict[tuple[str, str], Callable[[Path], Session]] = {
    **{("zenith", p): partial(Zenith, precision=p) for p in PRECISIONS},
    **{("torch", p): partial(Torch, precision=p) for p in PRECISIONS[:2]},
    **{("inductor", p): partial(Torch, precision=p, compiled=True) for p in PRECISIONS[:2]},
    **{("openvino", p): partial(OpenVino, precision=p) for p in PRECISIONS},
    **{("llama.cpp", p): partial(LlamaCpp, precision=p) for p in PRECISIONS},
}


def weights_of(model: Any) -> int:
    """How many weights a token reads: all but the table of embeddings, of which it reads one row."""
    return sum(p.numel() for n, p in model.named_parameters() if "embed_tokens" not in n)


def _torch_model(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder).eval()
