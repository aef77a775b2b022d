"""Sorting and the k best elements: one module for each way to compute them."""
