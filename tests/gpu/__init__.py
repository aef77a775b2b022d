"""Tests that run kernels on a GPU; ``make gpu-tests`` runs them, elsewhere they are skipped with the reason."""
