"""A model for OpenVINO, by optimum-intel, in an environment that has it: ``python export.py folder``."""

from __future__ import annotations

import sys
from pathlib import Path

from optimum.intel import OVModelForCausalLM, OVWeightQuantizationConfig

KINDS = {
    "float32": None,
    "int8": OVWeightQuantizationConfig(bits=8),
    "int4": OVWeightQuantizationConfig(bits=4, sym=True, group_size=64, ratio=1.0),
}

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for name, config in KINDS.items():
        model = OVModelForCausalLM.from_pretrained(
            folder, export=True, load_in_8bit=False, quantization_config=config, compile=False
        )
        model.save_pretrained(folder / f"openvino-{name}")
