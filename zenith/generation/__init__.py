"""Generation: tokens by a causal language model, one after the other, over a cache of keys and values."""

from zenith.generation.entry import generate
from zenith.generation.generator import Generator

__all__ = ["Generator", "generate"]
