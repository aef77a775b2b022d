"""Exports in several threads: one at a time, and nobody takes what an export has put into a module for its weights."""

import threading

import torch
from torch import nn

import zenith
from tests.threads import in_threads
from tests.torch.test_from_torch import compare


def test_modules_are_compiled_in_several_threads_at_once():
    """Those that share a submodule, and recurrent ones, too, whose export replaces functions of PyTorch."""
    torch.manual_seed(0)
    shared, x, barrier = nn.Linear(4, 4), torch.randn(3, 4), threading.Barrier(6)
    modules = [nn.Sequential(shared, nn.ReLU(), nn.Linear(4, n + 1)).eval() for n in range(4)]
    modules += [nn.Sequential(nn.LayerNorm(4), nn.Linear(4, n + 1)).eval() for n in range(2)]

    with torch.no_grad():  # PyTorch itself must not run a module while another thread exports its weights
        expected = [module(x) for module in modules]

    def work(n):
        barrier.wait()
        for _ in range(2):
            fast = zenith.from_torch(modules[n], (x,), backend="reference")
            with torch.no_grad():
                torch.testing.assert_close(fast(x), expected[n])

    in_threads(6, work)


def test_a_call_waits_for_an_export_of_the_same_weights():
    class Slow(nn.Module):
        def __init__(self, linear):
            super().__init__()
            self.linear = linear

        def forward(self, x):
            exporting.set()
            assert go.wait(60)
            return self.linear(x)

    exporting, go, found = threading.Event(), threading.Event(), []
    linear, x = nn.Linear(3, 3), torch.ones(2, 3)
    fast = zenith.from_torch(linear, (x,), backend="reference")
    compare(fast, linear, x)
    with torch.no_grad():
        expected = linear(x)
    export = threading.Thread(target=lambda: zenith.from_torch(Slow(linear), (x,), backend="reference"))

    def call():
        with torch.no_grad():
            found.append(fast(x))

    export.start()
    assert exporting.wait(60)
    caller = threading.Thread(target=call)
    caller.start()
    caller.join(0.3)
    go.set()
    caller.join()
    export.join()
    torch.testing.assert_close(found, [expected])
    assert fast.cache_info().misses == 1 and fast.cache_info().repacked == 0
