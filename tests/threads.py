"""Running one piece of work in many threads at once."""

import threading


def in_threads(count, work):
    """Run ``work(number)`` in so many threads and wait for all; the first exception of any is raised here."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
