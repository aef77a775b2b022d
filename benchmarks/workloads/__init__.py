"""The workloads, in the order in which reports show them."""

from benchmarks.workloads.adapters import TRAIN_LORA
from benchmarks.workloads.elementwise import CHAIN, GELU, TINY_CALL
from benchmarks.workloads.encoder import ENCODER, ENCODER_NARROW
from benchmarks.workloads.generation import GENERATE
from benchmarks.workloads.images import TRAIN_CNN, TRAIN_CNN_ADAM
from benchmarks.workloads.kernels import ATTENTION, MATMUL_HALVES, RELU
from benchmarks.workloads.order import ARGSORT, SORT
from benchmarks.workloads.places import GATHER, SCATTER_ADD, SCATTER_MAX, SCATTER_SET
from benchmarks.workloads.prefixes import CUMSUM, CUMSUM_ROWS
from benchmarks.workloads.products import DYNAMIC_LENGTHS, MATMUL, MLP_B1, MLP_B32
from benchmarks.workloads.quantized import MLP_INT8
from benchmarks.workloads.recurrent import RNN_FORWARD, RNN_FORWARD_SHORT, RNN_GRADIENT, RNN_GRADIENT_SHORT
from benchmarks.workloads.rows import LAYERNORM, LAYERNORM_SOFTMAX, SOFTMAX
from benchmarks.workloads.sentences import MINILM_B1, MINILM_B8
from benchmarks.workloads.spectra import LOW_PASS
from benchmarks.workloads.training import TRAIN_MLP, TRAIN_TRANSFORMER
from benchmarks.workloads.vision import DIGITS, RESNET50_B1, RESNET50_B8, RESNET50_NARROW
from benchmarks.workloads.workload import Array, Arrays, Program, Workload

_ALL = (
    CHAIN,
    GELU,
    RELU,
    SOFTMAX,
    LAYERNORM,
    LAYERNORM_SOFTMAX,
    SORT,
    ARGSORT,
    CUMSUM,
    CUMSUM_ROWS,
    GATHER,
    SCATTER_SET,
    SCATTER_ADD,
    SCATTER_MAX,
    LOW_PASS,
    MATMUL,
    MATMUL_HALVES,
    ATTENTION,
    MLP_B1,
    MLP_B32,
    MLP_INT8,
    DYNAMIC_LENGTHS,
    ENCODER,
    ENCODER_NARROW,
    MINILM_B1,
    MINILM_B8,
    GENERATE,
    RESNET50_B1,
    RESNET50_B8,
    RESNET50_NARROW,
    DIGITS,
    TINY_CALL,
    TRAIN_MLP,
    TRAIN_TRANSFORMER,
    TRAIN_LORA,
    TRAIN_CNN,
    TRAIN_CNN_ADAM,
    RNN_FORWARD,
    RNN_FORWARD_SHORT,
    RNN_GRADIENT,
    RNN_GRADIENT_SHORT,
)
WORKLOADS = {workload.name: workload for workload in _ALL}


def find(name: str) -> Workload:
    """The workload of a name, one for a GPU too."""
    if name in WORKLOADS:
        return WORKLOADS[name]
    from benchmarks.gpu.workloads import GPU_WORKLOADS

    return GPU_WORKLOADS[name]


__all__ = ["WORKLOADS", "Array", "Arrays", "Program", "Workload", "find"]
