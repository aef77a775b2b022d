"""Elementwise groups and writes into parts of arrays."""
