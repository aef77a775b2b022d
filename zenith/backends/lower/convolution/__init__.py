"""Convolutions and their gradients by weights: one module for each way to compute them."""
