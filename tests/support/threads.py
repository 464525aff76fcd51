"""Work in several threads at once."""

from __future__ import annotations

import threading


def run_threads(work, count=8):
    """Run `work(k)` in threads, k from 0 to count - 1. What the first that fails raises is raised here."""
    failures = []

    def guarded(k):
        try:
            work(k)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
