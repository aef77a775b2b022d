"""What is measured on a GPU, the most informative first: a run whose time is over has these.

The programs are those of the CPU's workloads, at sizes that a GPU is used for. Arrays of the memory-bound ones are
several times larger than its cache.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.workloads.adapters import TRAIN_LORA, lora
from benchmarks.workloads.convolving import TRAIN_CNN
from benchmarks.workloads.elementwise import CHAIN, GELU
from benchmarks.workloads.encoder import BERT, ENCODER, LENGTH, Encoder
from benchmarks.workloads.generation import GENERATE, generation
from benchmarks.workloads.kernels import ATTENTION, BFLOAT16, HEAD, MATMUL_HALVES, RELU, halves, of_halves
from benchmarks.workloads.layers import gelu, torch_gelu, torch_linear
from benchmarks.workloads.llama import TINY_LLAMA
from benchmarks.workloads.products import LENGTHS, MATMUL, dynamic_lengths
from benchmarks.workloads.rows import LAYERNORM, LAYERNORM_SOFTMAX, SOFTMAX
from benchmarks.workloads.training import TRAIN_MLP, TRAIN_TRANSFORMER, numpy_mlp, torch_mlp, transformer
from benchmarks.workloads.vision import resnet_of
from benchmarks.workloads.workload import (
    Array,
    Arrays,
    Program,
    Shapes,
    Workload,
    first_inputs,
    inputs,
    weights,
)

MANY = 32 * 1024 * 1024
FLOAT = 4


def _with_shapes(shapes: Shapes) -> dict[str, Any]:
    """Sizes do not change from call to call, so everybody may specialise to them."""
    return {"batches": inputs(shapes), "first": first_inputs(shapes)}


def _numpy_linear_gelu(arrays: Arrays, np: Any) -> Program:
    w, b = arrays

    def linear_gelu(x: Array) -> Array:
        return gelu(x @ w.T + b, np)

    return linear_gelu


def _torch_linear_gelu(arrays: Arrays) -> Any:
    import torch

    return torch.nn.Sequential(torch_linear(*arrays), torch_gelu())


def encoder_flops(encoder: Encoder, tokens: int) -> int:
    """Operations of an encoder's products and attention for one sequence."""
    linear = 4 * encoder.width**2 + 2 * encoder.width * encoder.middle
    return encoder.layers * 2 * tokens * (linear + 2 * tokens * encoder.width)


SQUARE = 8192
HEADS, KEYS = 32, 2048  # of attention
REPLAYED = "gpu_mlp_replay"
_MLP = Workload(
    name="gpu_mlp",
    description="W15: the MLP 512-256-128-64 with relu, batch 32",
    **_with_shapes(((32, 512),)),
    weights=weights(((256, 512), (256,), (128, 256), (128,), (64, 128), (64,))),
    numpy=numpy_mlp,
    torch=torch_mlp,
)

_W4 = Encoder(layers=6, width=768, heads=8, middle=3072)


def _named(number: str, workload: Workload) -> Workload:
    return replace(workload, description=f"{number}: {workload.description}")


_ALL = (
    replace(
        CHAIN,
        name="gpu_chain",
        description="sigmoid(exp(tanh(gelu(x)))) over 32 M floats",
        **_with_shapes(((MANY,),)),
        bytes=2 * FLOAT * MANY,
    ),
    replace(
        LAYERNORM_SOFTMAX,
        name="gpu_layernorm_softmax",
        description="softmax(layernorm(x)) over the rows of 32768x1024",
        **_with_shapes(((MANY // 1024, 1024),)),
        bytes=2 * FLOAT * MANY,
    ),
    replace(
        MATMUL,
        name="gpu_matmul",
        description="W1: 1024x1024 @ 1024x1024 in float32",
        **_with_shapes(((1024, 1024),)),
        weights=weights(((1024, 1024),)),
        flops=2 * 1024**3,
    ),
    Workload(
        name="gpu_linear_gelu",
        description="W17: gelu(linear(x)), M 1024, N 4096, K 1024, float32",
        **_with_shapes(((1024, 1024),)),
        weights=weights(((4096, 1024), (4096,))),
        numpy=_numpy_linear_gelu,
        torch=_torch_linear_gelu,
        flops=2 * 1024 * 4096 * 1024,
    ),
    replace(
        MATMUL,
        name="gpu_matmul_halves",
        description="8192x8192 @ 8192x8192 in float16, sums in float32",
        **of_halves(((SQUARE, SQUARE),)),
        weights=lambda: halves(((SQUARE, SQUARE),), seed=3, scale=SQUARE**-0.5),
        flops=2 * SQUARE**3,
        bound=2e-3,
    ),
    replace(
        MATMUL,
        name="gpu_matmul_bf16",
        description="8192x8192 @ 8192x8192 in bfloat16, sums in float32",
        **of_halves(((SQUARE, SQUARE),), BFLOAT16),
        weights=lambda: halves(((SQUARE, SQUARE),), 3, SQUARE**-0.5, BFLOAT16),
        flops=2 * SQUARE**3,
        bound=8e-3,
    ),
    replace(
        ATTENTION,
        name="gpu_attention",
        description="attention in float16: 32 heads of 64, 2048 queries and keys",
        **of_halves(((HEADS, KEYS, HEAD),) * 3),
        flops=4 * HEADS * KEYS**2 * HEAD,
        bound=5e-3,
    ),
    replace(
        ENCODER, name="gpu_bert_encoder", description=f"W3: {ENCODER.description}", flops=encoder_flops(BERT, LENGTH)
    ),
    replace(resnet_of(32), name="gpu_resnet50", description=f"W5: {resnet_of(32).description}", long=False),
    replace(resnet_of(1), name="gpu_resnet50_b1", description=f"W5: {resnet_of(1).description}"),
    replace(TRAIN_CNN, name="gpu_train_cnn", long=False),
    _MLP,
    replace(_MLP, name=REPLAYED, description="W16: the MLP of W15, by CUDA graphs and without"),
    replace(TRAIN_TRANSFORMER, name="gpu_train_transformer"),
    _named("W4", replace(transformer("gpu_train_transformer_w4", _W4, batch=64, length=256, rate=1e-4), long=True)),
    replace(SOFTMAX, name="gpu_softmax", description=f"W14: {SOFTMAX.description}", bytes=2 * FLOAT * 1024**2),
    replace(LAYERNORM, name="gpu_layernorm", description=f"W14: {LAYERNORM.description}", bytes=2 * FLOAT * 512 * 768),
    replace(RELU, name="gpu_relu", bytes=2 * FLOAT * 1024**2),
    replace(MATMUL_HALVES, name="gpu_matmul_w7", flops=2 * 128 * 64 * 256),
    replace(GELU, name="gpu_gelu", description=f"W14: {GELU.description}", bytes=2 * FLOAT * 1024**2),
    replace(TRAIN_MLP, name="gpu_train_mlp"),
    dynamic_lengths("gpu_dynamic_lengths", batch=32, width=4096, checks=2, flops=2 * 2 * 32 * sum(LENGTHS) * 4096**2),
    _named("W8", replace(TRAIN_LORA, name="gpu_train_lora_small")),
    _named("W10", replace(GENERATE, name="gpu_generate_small")),
    _named("W10", generation("gpu_generate", TINY_LLAMA, long=True)),
    _named("W8", lora("gpu_train_lora", TINY_LLAMA, batch=2, length=512, long=True)),
)
GPU_WORKLOADS = {workload.name: workload for workload in _ALL}
