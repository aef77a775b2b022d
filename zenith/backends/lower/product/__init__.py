"""Matrix products: one module for each way to compute them."""
