"""From a fused body to kernels: a folder for each kind of group, and what they share."""
