"""Hugging Face's architectures: how a model of one is built from a small configuration, and called at two sizes.

The tables of them are in tests/torch/architectures.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

Arguments = dict[str, Any]
Call = Callable[[int, int], Arguments]


@dataclass(frozen=True)
class Family:
    """One architecture.

    ``settings`` are those of the class's configuration, or a function of the library that makes one; ``config`` is the
    name of the configuration's class where it is not the model's. ``call`` gives the arguments by batch and size (an
    image's side, a text's or a sound's length), ``sizes`` are the batches and sizes of two calls, and ``programs`` is
    how many programs they need: two where the model's own code branches on the size.
    """

    model: str
    settings: Mapping[str, Any] | Callable[[Any], Any]
    call: Call
    sizes: tuple[tuple[int, int], tuple[int, int]]
    config: str = ""
    programs: int = 1

    def build(self, library: Any) -> torch.nn.Module:
        """The model with random weights, always the same, in evaluation mode."""
        torch.manual_seed(0)
        if callable(self.settings):
            configuration = self.settings(library)
        else:
            name = self.config or self.model.removesuffix("Model") + "Config"
            configuration = getattr(library, name)(**self.settings)
        model: torch.nn.Module = getattr(library, self.model)(configuration).eval()
        return model

    def calls(self) -> list[Arguments]:
        """The arguments of the two calls."""
        return [self.call(*size) for size in self.sizes]


def noise(*shape: int) -> torch.Tensor:
    """Random numbers, always the same for a shape."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def images(batch: int, side: int) -> Arguments:
    """Square images in three colours."""
    return {"pixel_values": noise(batch, 3, side, side)}


def between(batch: int, side: int) -> Arguments:
    """Images of other sizes than the learned position embeddings, between which the model interpolates."""
    return images(batch, side) | {"interpolate_pos_encoding": True}


def films(frames: int) -> Call:
    """So many images one after another."""
    return lambda batch, side: {"pixel_values": noise(batch, frames, 3, side, side)}


def waves(batch: int, length: int) -> Arguments:
    """Sound, as samples."""
    return {"input_values": noise(batch, length)}


def spectra(bands: int) -> Call:
    """Sound, as bands of frequencies over time."""
    return lambda batch, length: {"input_features": noise(batch, length, bands)}


def text(batch: int, length: int) -> Arguments:
    """Words with a mask that leaves out the end of the first row."""
    generator = torch.Generator().manual_seed(100 * batch + length)
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[0, -2:] = 0
    return {"input_ids": torch.randint(3, 90, (batch, length), generator=generator), "attention_mask": mask}


def words(batch: int, length: int) -> Arguments:
    """Words alone."""
    return {"input_ids": text(batch, length)["input_ids"]}


def translated(call: Call, shrink: int = 1) -> Call:
    """For an encoder and a decoder: the decoder's words in addition to the encoder's arguments, which may be longer."""
    return lambda batch, length: (
        call(batch, length) | {"decoder_input_ids": words(batch, length // shrink)["input_ids"]}
    )


def described(side: int) -> Call:
    """A text and images of one size."""
    return lambda batch, length: images(batch, side) | text(batch, length)
