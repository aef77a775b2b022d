"""Quantisation: products by fixed matrices in bytes, calibrated and measured."""

from zenith.quantization.quantized import Quantized, quantize
from zenith.quantization.report import QuantizationReport

__all__ = ["QuantizationReport", "Quantized", "quantize"]
