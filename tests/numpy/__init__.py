"""Tests of zenith.numpy."""
