"""NumPy's functions, one by one."""
