"""Tests of code generation and of the processors it runs on."""
