"""Scatter: one module for each way to compute it."""
