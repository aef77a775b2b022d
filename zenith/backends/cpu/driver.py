"""The native half of the thread team: its block of words, and the code that launches, claims, sleeps and wakes.

A *launch* runs ``kernel(begin, end, args)`` over ``[0, total)`` in chunks of ``grain`` items. Chunk ``i`` is always
``[i * grain, (i + 1) * grain)``, whoever runs it, so results depend neither on the number of threads nor on timing.
The caller takes chunks like everybody else and returns when all are done. Every worker may come late or never: the
caller then does the work alone, so nobody's progress depends on a worker being scheduled. A claim costs some hundred
nanoseconds, and chunks are as short as is worth sharing; so while many are left, a claim is of several neighbours,
which the kernel runs at once (guided self-scheduling: Polychronopoulos and Kuck, 1987).

*Claims.* All state is a block of 64-bit words. The word CLAIM is ``generation << 32 | first << 16 | end``, where chunks
``first`` to before ``end`` are left. A thread reads it, reads the job's parameters, and claims chunks by a
compare-and-swap: the caller the first ones, workers the last ones. So launches over the same rows or the same weights
find much of them in the cache of the core that had them before, without anybody waiting for that. Parameters are only
rewritten while no chunk is left, and every job has a new generation; hence a swap that succeeds proves that the
parameters read before it belong to the chunk, and a thread that was descheduled for a second can neither run nor count
down a newer job. The word PENDING counts chunks that are not finished; only finished claims lower it.

*One job at a time.* The job slot is a try-lock. Whoever finds it taken (another Python thread, a kernel that launches)
runs its chunks serially: all cores are busy anyway, and nobody waits.

*Sleep.* An idle worker looks at CLAIM some 2000 times and then waits for a condition variable. Waking costs the caller
about 20 us and the worker comes 50 us later at best, so a sleeping team is woken for work worth at least
``WAKE_WORK`` nanoseconds: the work expected of this launch (the time of its first chunk, or of the kernel's first
chunk in an earlier launch) plus the launches of the last millisecond that went without help. So a loop over small
programs soon has the team awake, and a lone small program never pays for it. The caller does not wait for a worker to
wake up. Linux tends to wake a worker on the caller's own core, where it starves for milliseconds; therefore the
caller first moves the workers off that core.

*Interruption.* Python notes a signal at once and runs its handler in the main thread between two byte codes, so not
while that thread is here. Therefore a call of the main thread looks at the clock between chunks and between rows, and
every 200 ms calls back, which lets handlers run. When one raises, the chunks that are left are nobody's, and the call
returns 1. Calls of other threads are not interrupted.
"""

from __future__ import annotations

from zenith.backends.cpu.native_code import native
from zenith.backends.cpu.native_intrinsics import (
    call_kernel,
    compare_exchange,
    current_cpu,
    current_thread,
    fetch_add,
    load_acquire,
    lock_mutex,
    nanoseconds,
    pause,
    sched_yield,
    set_affinity,
    signal_condition,
    store_release,
    unlock_mutex,
    wait_condition,
)
from zenith.backends.cpu.word_layout import (
    ARGS,
    ASK,
    ASK_EVERY,
    ASKED,
    ASKING,
    AVOIDED,
    CALLED,
    CLAIM,
    CLAIMS_LEFT,
    CONDITION,
    CORES,
    CORES_BYTES,
    COSTS,
    GENERATION,
    GRAIN,
    KERNEL,
    LAST,
    LOCK,
    MAIN,
    MAX_CHUNKS,
    MOST_CLAIMED,
    MUTEX,
    PENDING,
    RAISED,
    RECENT,
    SIZE,
    SLEEPERS,
    SPINS,
    SPINS_BEFORE_YIELD,
    START,
    STARTED,
    STOP,
    THREADS,
    TOTAL,
    UNAIDED,
    WAKE_WORK,
)


@native
def _run_chunks(team: int, last: int, most: int) -> int:
    """Claim and run the first or last chunks left of whatever job is there, ``most`` at most; return how many."""
    while True:
        word = load_acquire(team, CLAIM)
        first = word >> 16 & MAX_CHUNKS
        end = word & MAX_CHUNKS
        if first == end:
            return 0
        kernel = load_acquire(team, KERNEL)
        total = load_acquire(team, TOTAL)
        grain = load_acquire(team, GRAIN)
        args = load_acquire(team, ARGS)
        share = (end - first) // (CLAIMS_LEFT * load_acquire(team, SIZE))
        count = most if share > most else share if share > 1 else 1
        begin = (end - count if last else first) * grain
        if compare_exchange(team, CLAIM, word, word - count if last else word + (count << 16)):
            end = begin + count * grain
            call_kernel(kernel, begin, end if end < total else total, args)
            fetch_add(team, PENDING, -count)
            return count


@native
def _sleep(team: int) -> None:
    """Wait to be called. Whoever is called passes the word on to two more while there are calls left."""
    lock_mutex(team + MUTEX)
    store_release(team, SLEEPERS, load_acquire(team, SLEEPERS) + 1)
    while load_acquire(team, CALLED) == 0 and load_acquire(team, STOP) == 0:
        wait_condition(team + CONDITION, team + MUTEX)
    called = load_acquire(team, CALLED) - 1
    store_release(team, CALLED, called)
    unlock_mutex(team + MUTEX)
    if called > 0:
        signal_condition(team + CONDITION)
        signal_condition(team + CONDITION)


@native
def _steer(team: int) -> None:
    """Keep the workers off the core that this thread runs on. Nothing to do while that core stays the same."""
    core = current_cpu()
    if core == load_acquire(team, AVOIDED) or core >= 8 * CORES_BYTES:
        return
    store_release(team, AVOIDED, core)
    word = team + CORES + (core >> 6) * 8
    allowed = load_acquire(word, 0)
    store_release(word, 0, allowed & ~(1 << (core & 63)))
    thread = team + THREADS
    while load_acquire(thread, 0):
        set_affinity(load_acquire(thread, 0), CORES_BYTES, team + CORES)
        thread += 8
    store_release(word, 0, allowed)


@native
def _wake(team: int, wanted: int) -> None:
    """Call up to ``wanted`` sleeping workers, without waiting for them. The owner of the job slot does it."""
    if load_acquire(team, STARTED) == 0:
        call_kernel(load_acquire(team, START), 0, 0, team)
        return
    _steer(team)
    lock_mutex(team + MUTEX)
    sleepers = load_acquire(team, SLEEPERS)
    called = wanted if wanted < sleepers else sleepers
    store_release(team, SLEEPERS, sleepers - called)
    store_release(team, CALLED, load_acquire(team, CALLED) + called)
    unlock_mutex(team + MUTEX)
    signal_condition(team + CONDITION)


@native
def work(team: int) -> None:
    """A worker's life: run chunks, spin a little, sleep, until STOP is set."""
    spins = 0
    while load_acquire(team, STOP) == 0:
        if _run_chunks(team, 1, MOST_CLAIMED):
            spins = 0
        elif spins < SPINS:
            pause()
            spins += 1
        else:
            _sleep(team)
            spins = 0


@native
def _has_raised(team: int) -> int:
    """Whether the handler of a signal has raised in this call: in the main thread, which is in no handler now."""
    if load_acquire(team, RAISED) == 0 or load_acquire(team, ASKING):
        return 0
    return current_thread() == load_acquire(team, MAIN)


@native
def is_interrupted(team: int, now: int) -> int:
    """Whether the handler of a signal has raised; let handlers run when that is long ago. In the main thread alone."""
    if _has_raised(team):
        return 1
    if now - load_acquire(team, ASKED) < ASK_EVERY:
        return 0
    if current_thread() != load_acquire(team, MAIN) or load_acquire(team, ASKING):
        return 0
    store_release(team, ASKING, 1)
    call_kernel(load_acquire(team, ASK), 0, 0, team)
    store_release(team, ASKING, 0)
    store_release(team, ASKED, now)
    return load_acquire(team, RAISED)


@native
def poll(team: int) -> int:
    """What a kernel that runs for long asks now and then: whether its call is interrupted, so that it shall return."""
    return is_interrupted(team, nanoseconds())


@native
def _abandon(team: int) -> None:
    """Take all chunks that are left, which nobody runs then. The job slot is ours."""
    while True:
        word = load_acquire(team, CLAIM)
        left = (word & MAX_CHUNKS) - (word >> 16 & MAX_CHUNKS)
        if compare_exchange(team, CLAIM, word, word - left):
            fetch_add(team, PENDING, -left)
            return


@native
def _run_rest(team: int) -> int:
    """Run chunks until none is left; return 1 when the call was interrupted instead."""
    while _run_chunks(team, 0, MOST_CLAIMED):
        if is_interrupted(team, nanoseconds()):
            _abandon(team)
            return 1
    return 0


@native
def _run_unaided(team: int, kernel: int, total: int, chunks: int) -> int:
    """Run the job although workers sleep, and wake them if that pays; return 1 when it was interrupted."""
    begun = nanoseconds()
    unaided = load_acquire(team, UNAIDED) if begun - load_acquire(team, LAST) < RECENT else 0
    cost = team + COSTS + ((kernel >> 4 ^ kernel >> 12) & 63) * 16  # kernels begin on pages mostly
    expected = load_acquire(cost, 8) * total // 1000 if load_acquire(cost, 0) == kernel else 0
    wakes = unaided + expected >= WAKE_WORK
    if wakes:
        _wake(team, chunks - 1)
    first = nanoseconds()
    _run_chunks(team, 0, 1)
    expected = (nanoseconds() - first) * chunks
    store_release(cost, 0, kernel)
    store_release(cost, 8, expected * 1000 // total)
    if not wakes and unaided + expected >= WAKE_WORK and chunks > 2:
        wakes = True
        _wake(team, chunks - 2)
    interrupted = _run_rest(team)
    ended = nanoseconds()
    store_release(team, LAST, ended)
    store_release(team, UNAIDED, 0 if wakes else unaided + ended - begun)
    return interrupted


@native
def _run_job(team: int, kernel: int, total: int, grain: int, chunks: int, args: int) -> int:
    """Publish the job, take part in it, and wait for its last chunk; return 1 when it was interrupted.

    The job slot is ours.
    """
    store_release(team, PENDING, chunks)
    store_release(team, KERNEL, kernel)
    store_release(team, TOTAL, total)
    store_release(team, GRAIN, grain)
    store_release(team, ARGS, args)
    generation = load_acquire(team, GENERATION) + 1
    store_release(team, GENERATION, generation)
    store_release(team, CLAIM, generation << 32 | chunks)
    interrupted = 0
    if load_acquire(team, SLEEPERS):
        interrupted = _run_unaided(team, kernel, total, chunks)
    if interrupted == 0:
        interrupted = _run_rest(team)
    spins = 0
    while load_acquire(team, PENDING):
        spins += 1
        if spins < SPINS_BEFORE_YIELD:
            pause()
        else:  # whoever holds the last chunk may be waiting for this very core
            sched_yield()
    return interrupted


@native
def run_launch(team: int, kernel: int, total: int, grain: int, args: int) -> int:
    """Run ``kernel`` over ``[0, total)``: with the team when it is free, else alone, chunk by chunk either way.

    Returns 1 when it was interrupted.
    """
    if total <= 0:
        return 0
    smallest = (total - 1) // MAX_CHUNKS + 1
    grain = grain if grain > smallest else smallest
    chunks = (total - 1) // grain + 1
    if chunks == 1:
        call_kernel(kernel, 0, total, args)
    elif load_acquire(team, SIZE) > 1 and compare_exchange(team, LOCK, 0, 1):
        interrupted = _run_job(team, kernel, total, grain, chunks, args)
        store_release(team, LOCK, 0)
        if interrupted:
            return 1
    else:
        begin = 0
        while begin < total:
            end = begin + grain if total - begin > grain else total
            call_kernel(kernel, begin, end, args)
            begin = end
            if is_interrupted(team, nanoseconds()):
                return 1
    return _has_raised(team)  # a kernel may have asked, and left


@native
def try_lock(team: int) -> int:
    """Take the job slot if it is free; return whether it was."""
    return compare_exchange(team, LOCK, 0, 1)
