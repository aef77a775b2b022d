"""Engines that call CUDA's libraries."""

from __future__ import annotations

from zenith.backends.engines import Engine

LIBRARY_ENGINES: tuple[Engine, ...] = ()
