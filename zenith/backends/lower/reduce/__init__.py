"""Reductions and prefixes along rows (trailing axes) and columns (all others)."""
