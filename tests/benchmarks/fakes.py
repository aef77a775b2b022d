"""Contenders that behave badly, for the harness to catch."""

import os

import numpy as np

from benchmarks.contenders import Contender


def _numpy(workload):
    return workload.numpy(workload.weights(), np)


def _wrong(workload):
    return lambda *arrays: _numpy(workload)(*arrays) * np.float32(1.001)


def _raising(workload):
    def program(*arrays):
        raise RuntimeError("no kernel for this")

    return program


def _dying(workload):
    return lambda *arrays: os._exit(7)


def _printing(workload):
    def program(*arrays):
        print("libraries print")
        return _numpy(workload)(*arrays)

    return program


ABSENT = Contender("absent", libraries=("no_such_library",), program=_numpy)
WRONG = Contender("wrong", libraries=("numpy",), program=_wrong)
RAISING = Contender("raising", libraries=("numpy",), program=_raising)
DYING = Contender("dying", libraries=("numpy",), program=_dying)
PRINTING = Contender("printing", libraries=("numpy",), program=_printing)
CHOOSY = Contender("choosy", libraries=("numpy",), program=_numpy, declines=lambda workload: "it is too small for me")
