"""The contenders, in the order in which they take turns; Zenith's first, then the baseline and its peers."""

import importlib

from benchmarks.contenders.arrays import JAX, NUMEXPR, NUMPY
from benchmarks.contenders.bfloat16 import INDUCTOR_BF16, OPENVINO_BF16, ZENITH_BF16
from benchmarks.contenders.contender import Contender
from benchmarks.contenders.quantized import ONNX_RUNTIME_INT8, OPENVINO_INT8, PT2E, QUANTIZE, TORCHAO
from benchmarks.contenders.runtimes import ONNX_RUNTIME, OPENVINO
from benchmarks.contenders.torch import EAGER, INDUCTOR, INDUCTOR_DYNAMIC, INDUCTOR_FREEZING
from benchmarks.contenders.zenith import FROM_TORCH, JIT, TORCH_COMPILE

_ALL = (
    JIT,
    FROM_TORCH,
    TORCH_COMPILE,
    EAGER,
    INDUCTOR,
    INDUCTOR_FREEZING,
    INDUCTOR_DYNAMIC,
    ONNX_RUNTIME,
    OPENVINO,
    JAX,
    NUMPY,
    NUMEXPR,
    ZENITH_BF16,
    INDUCTOR_BF16,
    OPENVINO_BF16,
    QUANTIZE,
    TORCHAO,
    PT2E,
    ONNX_RUNTIME_INT8,
    OPENVINO_INT8,
)
CONTENDERS = {contender.name: contender for contender in _ALL}
OWN = (JIT.name, FROM_TORCH.name, TORCH_COMPILE.name, ZENITH_BF16.name, QUANTIZE.name)
BASELINE = EAGER.name


def find(name: str) -> Contender:
    """The contender of a name, one on a GPU too; ``package.module:ATTRIBUTE`` names one that is defined elsewhere."""
    if ":" in name:
        module, _, attribute = name.partition(":")
        contender: Contender = getattr(importlib.import_module(module), attribute)
        return contender
    if name in CONTENDERS:
        return CONTENDERS[name]
    from benchmarks.gpu.contenders import GPU_CONTENDERS

    return GPU_CONTENDERS[name]


__all__ = ["BASELINE", "CONTENDERS", "OWN", "QUANTIZE", "ZENITH_BF16", "Contender", "find"]
