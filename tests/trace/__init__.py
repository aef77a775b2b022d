"""Tests of zenith.trace."""
