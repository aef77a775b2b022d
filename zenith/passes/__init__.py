"""Passes: pure functions from graph to graph, each a file; :mod:`zenith.passes.pipeline` says which run, in order."""
