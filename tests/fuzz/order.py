"""Order: random programs over arrays and streams, alone or in threads that share arrays which they read."""

from __future__ import annotations

import gc
import threading

from .case import Case
from .program import STEPS, Program


def run(case):
    if case.chance(0.3) and not case.place.is_slow:  # the simulator has one thread
        threads(case)
    else:
        alone(case)


def alone(case):
    program = Program(case)
    for _ in range(2):
        program.fresh()
    for _ in range(case.integer(5, 30)):
        program.step(STEPS)
    program.check()


def threads(case):
    """Each its own program; the arrays they share were made here, and are only read."""
    shared = Program(case)
    for _ in range(2):
        shared.fresh()
    failures = []

    def work(own):
        try:
            program = Program(own, shared.side)
            program.arrays, program.mirrors = dict(shared.arrays), dict(shared.mirrors)
            program.frozen, program._count = set(shared.arrays), shared._count
            for _ in range(own.integer(5, 20)):
                program.step(STEPS)
            program.check()
        except Exception as error:
            failures.append(error)

    cases = [Case(f"order {number}", case.seed, case.place) for number in range(case.pick([2, 4, 8]))]
    workers = [threading.Thread(target=work, args=(own,)) for own in cases]
    threshold = gc.get_threshold()
    if case.chance(0.3):
        case.note("gc.set_threshold(1)")
        gc.set_threshold(1)
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        gc.set_threshold(*threshold)
    if failures:
        for own in cases:
            case.lines += [f"thread {own.family.split()[-1]}: {line}" for line in own.lines]
        raise failures[0]
    shared.check()
