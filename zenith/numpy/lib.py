"""``numpy.lib``: of it there is ``stride_tricks``.

>>> from zenith.numpy import lib
>>> lib.stride_tricks.sliding_window_view([1, 2, 3], 2)
array([[1, 2],
       [2, 3]])
"""

from zenith.numpy import stride_tricks

__all__ = ["stride_tricks"]
