"""What Zenith uses of llvmlite, which has no types of its own; `llvmlite.binding` is not described."""

__version__: str
