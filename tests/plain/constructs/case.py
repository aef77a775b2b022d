"""The list of functions with their arguments, and what several of them use."""

import numpy as np

CASES = []  # functions with arguments
X = np.array([3.0, -1.0, 2.0, 5.0, -4.0, 1.0, 7.0, 0.0, 2.0, 9.0, -3.0, 4.0])
A = np.arange(12.0).reshape(3, 4)
G = np.zeros(4)
GL = []
LOG = []


def case(*args):
    """A function that is called with these arguments."""

    def note(function):
        CASES.append((function, args))
        return function

    return note
