"""CUDA graphs: a random program captured, launched again and again on changed inputs, dropped in any order."""

from __future__ import annotations

import gc

import numpy as np

import numbacc

from . import steps
from .case import Case
from .program import Program

#: Steps that a graph can hold.
STEPS = ("forward", "forward", "backward", "matmul", "matmul", "fill", "copy", "fresh", "view", "delete", *steps.NAMES)


def available(place):
    return place.is_device


def run(case):
    """The choices of the program are those of a case of its own, so that it can be run before, to make its plans."""
    if case.chance(0.7):
        case.note("the program once, not captured:")
        made = captured_program(case, None)
        made.check()
        del made
    program = captured_program(case, numbacc.graph(stream=case.pick([None, numbacc.stream()])))
    if program is None:
        return
    graph = program.graph
    for _ in range(case.integer(2, 3 if case.place.is_slow else 8)):
        replayed(case, program, graph)
        if len(program.arrays) > 1 and case.chance(0.4):
            k = case.pick(program.arrays)
            case.note(f"del {k}")
            del program.arrays[k]
        if case.chance(0.2):
            gc.collect()
    if case.chance(0.5):
        program.arrays.clear()
    case.note("del the graph")
    del graph, program.graph
    if is_exact(program):
        program.check()


def captured_program(case, graph):
    """A program of random steps, inside a graph if one is given; None where the graph refuses a step."""
    own = Case("graph", case.seed, case.place)
    own.lines = case.lines
    program = Program(own, own.pick([2] if case.place.is_slow else [8, 64, 512]), [None])
    for _ in range(3):
        program.fresh()
    program.inputs = list(program.mirrors)
    kept = {k: program.mirrors[k].copy() for k in program.inputs}
    program.replay.clear()
    count = own.integer(3, 6 if case.place.is_slow else 15)
    if graph is None:
        for _ in range(count):
            program.step(STEPS)
        return program
    own.note("with numbacc.graph() as g:")
    try:
        with graph as program.graph:
            for _ in range(count):
                program.step(STEPS)
    except numbacc.Error as error:
        case.refused(error)
        return None
    for k, value in kept.items():  # nothing has been run yet
        program.mirrors[k][...] = value
    program.start_again()
    return program


def replayed(case, program, graph):
    """New inputs, one launch, and all that is left as NumPy has it."""
    for k in program.inputs:
        host = program.values()
        if k in program.arrays and case.chance(0.9):
            case.note(f"{k}[...] = host")
            program.arrays[k][...] = host
            program.mirrors[k][...] = host
    stream = case.pick([None, numbacc.stream()])
    case.note(f"g.launch(stream={stream})")
    graph.launch(stream=stream)
    with np.errstate(all="ignore"):
        for theirs in program.replay:
            theirs()
    if is_exact(program):
        program.check()


def is_exact(program):
    """Whether no sum can have been rounded: what is added up in place grows with each launch."""
    # `max` would pass over NaN, which is what infinities that were added up in place become.
    return all(np.abs(m).max(initial=0) < 2**22 for m in program.mirrors.values())
