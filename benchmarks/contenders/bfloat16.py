"""Contenders in bfloat16: products round their operands to 16 bits, each library in its own way.

They run where others are in 8-bit integers, on workloads with batches for calibration, which these do not need.
"""

from __future__ import annotations

from typing import Any

from benchmarks.contenders.contender import (
    Contender,
    Job,
    Program,
    cache_folder,
    inference_mode,
    tensors,
    torch_program,
)
from benchmarks.contenders.quantized import needs_both, needs_calibration
from benchmarks.contenders.runtimes import OpenVinoRequest, openvino_model
from benchmarks.contenders.zenith import SAVING, compilations


def _zenith(job: Job) -> Program:
    import zenith

    module: Any = job.program
    compiled: Program = zenith.from_torch(module, job.first, precision="bf16")
    return compiled


def _inductor(job: Job) -> Program:
    """Autocast around a compiled module whose weights are frozen: what PyTorch's documentation says of inference."""
    import torch
    import torch._inductor.config

    torch._inductor.config.freezing = True
    compiled: Any = job.compiled(torch.compile)

    def call(*arguments: Any) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return compiled(*arguments).float()

    return call


def _openvino(job: Job) -> Program:
    import openvino

    stored = cache_folder() / "model.xml"
    if not stored.exists():
        openvino.save_model(openvino_model(job), stored, compress_to_fp16=False)
    return OpenVinoRequest(str(stored), "bf16")


ZENITH_BF16 = Contender(
    "zenith bf16",
    ("zenith", "torch"),
    torch_program,
    compile=_zenith,
    convert=tensors,
    scope=inference_mode,
    facts=compilations,
    saving=SAVING,
    versions=("zenith-compiler", "torch"),
    declines=needs_calibration,
)
INDUCTOR_BF16 = Contender(
    "inductor bf16",
    ("torch",),
    torch_program,
    compile=_inductor,
    convert=tensors,
    scope=inference_mode,
    versions=("torch",),
    declines=needs_both,
)
OPENVINO_BF16 = Contender(
    "openvino bf16",
    ("openvino", "torch"),
    torch_program,
    compile=_openvino,
    versions=("openvino",),
    declines=needs_calibration,
)
