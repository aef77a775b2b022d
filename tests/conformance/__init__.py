"""The array API standard's own test suite, run on compiled functions; see `__main__`."""
