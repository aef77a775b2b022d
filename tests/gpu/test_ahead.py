"""A cubin that was compiled ahead, loaded and launched by hand, without Zenith's runtime."""

import re

import numpy as np

import zenith

THREADS = 256


def test_a_cubin_of_aot_runs_by_hand(real, rng):
    major, minor = real.cuda.runtime.getDeviceProperties(0)["major"], real.cuda.runtime.getDeviceProperties(0)["minor"]
    arch = f"sm_{major}{minor}" + ("a" if major >= 9 else "")
    ready = zenith.aot(lambda x: np.tanh(x) * 2, (np.ones(8, np.float32),), arch=arch)
    name = next(name for name in ready.cubin if not re.search(r"_x\d$", name))
    assert re.search(r"def \w+\(tasks, status, p0, out0, x0\)", ready.sources[name])
    module = real.cuda.function.Module()
    module.load(ready.cubin[name])
    x = real.asarray(rng.standard_normal(1000, dtype=np.float32))
    out, status = real.empty_like(x), real.zeros(1, np.int64)
    arguments = (np.uint32(x.size), status, x, out, np.uint32(x.size))
    module.get_function(name)((-(-x.size // THREADS),), (THREADS,), arguments)
    np.testing.assert_allclose(real.asnumpy(out), np.tanh(real.asnumpy(x)) * 2, rtol=2e-6)
    assert int(status[0]) == 0


def test_code_for_this_gpu_uses_its_own_architecture(real):
    step = zenith.jit(lambda x: np.tanh(x))
    step(real.ones(8, np.float32))
    assert "def tanh" in step.lower(real.ones(8, np.float32)).compile().as_text("kernels")
