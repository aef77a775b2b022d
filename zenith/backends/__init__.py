"""From fused groups to running code: plans, kernels, and the processors they run on."""
