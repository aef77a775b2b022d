"""Encoders of transformers with random weights, and that of BERT-base: 12 layers, 768 wide, gelu in tanh form.

After J. Devlin et al., BERT, 2018: each sublayer is added to its input and normalised.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy

from benchmarks.workloads.layers import gelu, layer_norm, softmax, torch_gelu, torch_layer_norm, torch_linear
from benchmarks.workloads.workload import Array, Arrays, Program, Workload, first_inputs, inputs, normal

DEVIATION = 0.02  # of BERT's own initialisation
PER_LAYER = 16
LENGTH = 128


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder, whose inputs are (batch, length, width), and what follows from them."""

    layers: int
    width: int
    heads: int
    middle: int

    def weights(self) -> Arrays:
        """For each layer weight and bias of query, key, value, output, then a normalisation, two linears, another."""
        rng = numpy.random.default_rng(3)

        def linear(out: int, width: int) -> Arrays:
            return scaled(rng, (out, width)), scaled(rng, (out,))

        def norm() -> Arrays:
            return 1 + scaled(rng, (self.width,)), scaled(rng, (self.width,))

        def layer() -> Arrays:
            attention = sum((linear(self.width, self.width) for _ in range(4)), ())
            return (*attention, *norm(), *linear(self.middle, self.width), *linear(self.width, self.middle), *norm())

        return sum((layer() for _ in range(self.layers)), ())

    def numpy(self, arrays: Arrays, np: Any) -> Program:
        """The program over ``numpy`` or a module like it."""
        scale = (self.width // self.heads) ** -0.5

        def split(x: Array) -> Array:
            """(batch, length, width) to (batch, head, length, width of a head)."""
            batch, length, width = x.shape
            return np.transpose(x.reshape(batch, length, self.heads, width // self.heads), (0, 2, 1, 3))

        def attention(x: Array, projections: Arrays) -> Array:
            wq, bq, wk, bk, wv, bv, wo, bo = projections
            q, k, v = split(x @ wq.T + bq), split(x @ wk.T + bk), split(x @ wv.T + bv)
            scores = q @ np.transpose(k, (0, 1, 3, 2)) * scale
            mixed = np.transpose(softmax(scores, np) @ v, (0, 2, 1, 3))
            result: Array = mixed.reshape(x.shape) @ wo.T + bo
            return result

        def encoder(x: Array) -> Array:
            for i in range(0, len(arrays), PER_LAYER):
                scale1, shift1, w1, b1, w2, b2, scale2, shift2 = arrays[i + 8 : i + PER_LAYER]
                x = layer_norm(x + attention(x, arrays[i : i + 8]), scale1, shift1, np)
                x = layer_norm(x + gelu(x @ w1.T + b1, np) @ w2.T + b2, scale2, shift2, np)
            return x

        return encoder

    def torch(self, arrays: Arrays) -> Any:
        """The same as a PyTorch module; its parameters are in the order of ``arrays``."""
        import torch

        heads = self.heads

        class Layer(torch.nn.Module):
            def __init__(self, layer: Arrays) -> None:
                super().__init__()
                pairs = [layer[i : i + 2] for i in range(0, 8, 2)]
                self.query, self.key, self.value, self.output = (torch_linear(*pair) for pair in pairs)
                self.norm1 = torch_layer_norm(*layer[8:10])
                self.inner = torch.nn.Sequential(torch_linear(*layer[10:12]), torch_gelu(), torch_linear(*layer[12:14]))
                self.norm2 = torch_layer_norm(*layer[14:16])

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                q, k, v = (p(x).unflatten(-1, (heads, -1)).transpose(1, 2) for p in (self.query, self.key, self.value))
                mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
                x = self.norm1(x + self.output(mixed.transpose(1, 2).flatten(2)))
                normalised: torch.Tensor = self.norm2(x + self.inner(x))
                return normalised

        return torch.nn.Sequential(*(Layer(arrays[i : i + PER_LAYER]) for i in range(0, len(arrays), PER_LAYER)))


def scaled(rng: Any, shape: tuple[int, ...]) -> Array:
    """Random weights of BERT's deviation."""
    result: Array = rng.standard_normal(shape, dtype=numpy.float32) * numpy.float32(DEVIATION)
    return result


BERT = Encoder(layers=12, width=768, heads=12, middle=3072)
ENCODER = Workload(
    name="bert_encoder",
    description=f"the encoder of BERT-base, random weights, batch 1, length {LENGTH}",
    batches=inputs(((1, LENGTH, BERT.width),)),
    first=first_inputs(((1, LENGTH, BERT.width),)),
    weights=BERT.weights,
    torch=BERT.torch,
    numpy=BERT.numpy,
)
ENCODER_NARROW = replace(
    ENCODER,
    name="bert_encoder_narrow",
    description=f"{ENCODER.description}, in 16 bits, and in 8 where ranges come from 16 batches",
    calibration=lambda: [normal(((1, LENGTH, BERT.width),), seed=100 + number) for number in range(16)],
    bound=0.1,
)
