"""Contenders that behave badly, for the harness to catch."""

import os
import time

import numpy as np

from benchmarks.contenders import Contender
from benchmarks.contenders.contender import Saving


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


def _saving(program, path):
    path.write_bytes(b"saved")


def _loaded(path):
    assert path.read_bytes() == b"saved"
    return lambda *arrays: arrays[0]


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
SAVING = Contender("saving", libraries=("numpy",), program=_numpy, saving=Saving(_saving, _loaded))
CHOOSY = Contender("choosy", libraries=("numpy",), program=_numpy, declines=lambda workload: "it is too small for me")


def _sleeping(workload):
    return lambda *arrays: time.sleep(1000)


SLEEPING = Contender("sleeping", libraries=("numpy",), program=_sleeping)
CEILING = Contender("ceiling", libraries=("numpy",), program=lambda workload: lambda *arrays: None, ceiling=True)
