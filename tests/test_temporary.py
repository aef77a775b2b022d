"""What a process changes for a while: by threads that come and go, with errors, and in forked children."""

import multiprocessing
import os
import threading

import pytest

from tests.threads import in_threads
from zenith.temporary import Temporary

PATIENCE = 180.0  # seconds until a test that hangs fails


class Light:
    """What is changed, and how often it was."""

    def __init__(self):
        self.is_on, self.changes = False, 0
        self.lit = Temporary(lambda: self.switch(True), self.switch)

    def switch(self, is_on):
        """Turn it on or off; returns what it was."""
        self.changes += 1
        before, self.is_on = self.is_on, is_on
        return before


def test_the_first_changes_and_the_last_restores():
    light, barrier = Light(), threading.Barrier(4)

    def work(number):
        barrier.wait(PATIENCE)
        with light.lit, light.lit:
            barrier.wait(PATIENCE)
            assert light.is_on
        barrier.wait(PATIENCE)

    in_threads(4, work)
    assert not light.is_on and light.changes == 2


def test_an_error_leaves_nothing_changed():
    light = Light()
    with pytest.raises(ZeroDivisionError), light.lit:
        raise ZeroDivisionError
    assert not light.is_on


def _in_child(light, is_inside, answers):
    found = [light.is_on]
    with light.lit:
        found.append(light.is_on)
    answers.put([*found, light.is_on, is_inside])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform does not fork")
@pytest.mark.parametrize("is_inside", [False, True])
def test_what_other_threads_wanted_ends_in_a_forked_child(is_inside):
    light, entered, leave = Light(), threading.Event(), threading.Event()

    def other():
        with light.lit:
            entered.set()
            leave.wait(PATIENCE)

    thread = threading.Thread(target=other)
    thread.start()
    assert entered.wait(PATIENCE)
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(light, is_inside, answers))
    if is_inside:
        with light.lit:
            child.start()
    else:
        child.start()
    child.join(PATIENCE)
    leave.set()
    thread.join()
    assert child.exitcode == 0
    assert answers.get() == [is_inside, True, is_inside, is_inside]
    assert not light.is_on
