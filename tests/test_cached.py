"""Cached properties: computed once for all threads, without a lock that a forked child would find taken."""

import os
import threading

import pytest

from zenith.cached import cached_property


class Slow:
    """A property that waits for an event while it is computed."""

    def __init__(self):
        self.begun, self.go_on = threading.Event(), threading.Event()

    @cached_property
    def value(self):
        """What is computed."""
        self.begun.set()
        self.go_on.wait(60)
        return object()


def test_all_threads_get_the_same_object():
    slow, found = Slow(), []
    threads = [threading.Thread(target=lambda: found.append(slow.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    slow.go_on.set()
    for thread in threads:
        thread.join()
    assert len(set(map(id, [*found, slow.value]))) == 1
    assert Slow.value.__doc__ == "What is computed."


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_another_object_is_not_waited_for_not_even_in_a_child():
    slow, other = Slow(), Slow()
    other.go_on.set()
    thread = threading.Thread(target=lambda: slow.value)
    thread.start()
    assert slow.begun.wait(60)
    child = os.fork()
    if not child:
        os._exit(0 if other.value is other.value else 1)
    slow.go_on.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
