"""Contenders in bfloat16: products round their operands to 16 bits, each library in its own way.

They run where others are in 8-bit integers, on workloads with batches for calibration, which these do not need.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.contenders.contender import Job, Program
from benchmarks.contenders.quantized import contender, needs_both
from benchmarks.contenders.runtimes import OpenVino
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


ZENITH_BF16 = contender("zenith bf16", "zenith", _zenith, False, facts=compilations, saving=SAVING)
INDUCTOR_BF16 = contender("inductor bf16", "torch", _inductor, False, needs_both)
OPENVINO_BF16 = contender("openvino bf16", "openvino", partial(OpenVino, precision="bf16"), True)
