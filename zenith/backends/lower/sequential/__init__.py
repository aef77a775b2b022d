"""Loops over scalars as one kernel: what would else be a launch for each operation of each turn."""
