"""Scatter: one module for each algorithm."""
