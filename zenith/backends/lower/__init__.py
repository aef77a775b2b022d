"""From a fused body to kernels: one module for each kind of group, and what they share."""
