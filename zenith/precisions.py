"""Registers what chooses precisions within a tolerance, and loads it at its first use."""

from __future__ import annotations

from zenith.api.tolerance import Chooser, chosen_by


@chosen_by
def _chooser() -> Chooser:
    from zenith.quantization.entry import within_tolerance

    return within_tolerance
