"""Programs in plain NumPy, compiled as they are."""
