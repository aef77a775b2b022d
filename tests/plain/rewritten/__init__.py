"""Programs of :mod:`tests.plain`, rewritten for JAX by hand: what does not return a result gives what it writes."""
