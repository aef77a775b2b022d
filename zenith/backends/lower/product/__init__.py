"""Matrix products: one module for each algorithm and kind of processor."""
