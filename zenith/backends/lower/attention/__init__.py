"""Attention and its derivative: one module for each algorithm and kind of processor."""
