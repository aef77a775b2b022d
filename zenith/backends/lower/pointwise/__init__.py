"""Elementwise groups and updates of slices."""
