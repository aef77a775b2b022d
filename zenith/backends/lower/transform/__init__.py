"""Fourier transforms of long rows."""
