"""The tracing front end: runs a Python function on stand-ins for arrays and writes down what it does as a Graph."""

from zenith.trace.recorder import InputSpec, Recorder, current_recorder
from zenith.trace.sizes import TracedSize
from zenith.trace.tracer import Tracer
from zenith.trace.tracing import TraceResult, trace

__all__ = ["InputSpec", "Recorder", "TraceResult", "TracedSize", "Tracer", "current_recorder", "trace"]
