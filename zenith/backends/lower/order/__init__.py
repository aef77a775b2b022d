"""Sorting and the k best elements: one module for each algorithm and kind of processor."""
