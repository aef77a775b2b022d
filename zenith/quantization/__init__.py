"""Quantisation: products by fixed matrices in bytes, calibrated and measured."""

from zenith.quantization.entry import quantize
from zenith.quantization.quantized import Quantized
from zenith.quantization.report import QuantizationReport

__all__ = ["QuantizationReport", "Quantized", "quantize"]
