"""Bit operations and shifts; on bool the bit operations are the logical ones."""

from __future__ import annotations

import numpy as np

from zenith.ir.ops.elementwise import elementwise, unary
from zenith.ir.primitive import not_differentiable
from zenith.ir.types import uint8

_DISCRETE = not_differentiable("it works on bits")


elementwise("bit_and", "Bitwise and; logical and of bools.", "x & y", np.bitwise_and, _DISCRETE, kinds="biu")
elementwise("bit_or", "Bitwise or; logical or of bools.", "x | y", np.bitwise_or, _DISCRETE, kinds="biu")
elementwise("bit_xor", "Bitwise exclusive or.", "x ^ y", np.bitwise_xor, _DISCRETE, kinds="biu")
unary("bit_not", "Bitwise not; logical not of a bool.", {"b": "x ^ True", "i": "~x", "u": "~x"}, np.invert, _DISCRETE,
      kinds="biu")  # fmt: skip
unary("bit_count", "The number of ones among the bits of the absolute value, as uint8.", "bit_count(x)",
      np.bitwise_count, _DISCRETE, kinds="iu", result=uint8, cost=4)  # fmt: skip
elementwise("shift_left", "x * 2**y; 0 when y is not below the width.", "shift_left(x, y)", np.left_shift, _DISCRETE,
            kinds="iu", domain=((-2.0, 2.0), (0.0, 3.2)))  # fmt: skip
elementwise("shift_right", "x // 2**y (arithmetic for signed x); its sign when y is not below the width.",
            "shift_right(x, y)", np.right_shift, _DISCRETE, kinds="iu", domain=((-2.0, 2.0), (0.0, 3.2)))  # fmt: skip
