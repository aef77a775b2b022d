"""Attention and its derivative: one module for each way to compute them."""
