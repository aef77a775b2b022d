"""Convolutions and their gradients by weights: one module for each algorithm and kind of processor."""
