"""How fast Zenith is, measured alongside its peers in one run: ``python -m benchmarks run``, ``table``, ``plot``.

Every contender lives in a process of its own, so that thread pools cannot disturb each other; the parent lets them
take turns, so that drift of the machine hits all alike; a result is checked against float64 before it is timed.
"""
