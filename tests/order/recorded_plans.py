"""Run by test_order.py with the driver replaced by a recorder: how a plan runs its executables."""

from __future__ import annotations

import gc
import weakref

import pytest
import recorder
from recorder import array, only

if not recorder.installed():
    pytest.skip("runs in a process of its own, started by test_order.py", allow_module_level=True)

import numbacc
from numbacc.base.codes import CAPTURING, MAY_OVERLAP, WRONG_ALIGNMENT
from numbacc.gemm.epilogue_plans import map_plan
from numbacc.plan.base import Plan
from numbacc.runtime.steps import CopyBytes, Scratch, Step, Steps, ZeroBytes


class Failure(Exception):
    pass


class Executable:
    """Answers what it is told to, and notes how it was called."""

    backend = algorithm = "test"
    deterministic = True

    def __init__(self, answers=(), nbytes=0, direct=True):
        self.answers, self.workspace_bytes, self.direct = list(answers), nbytes, direct
        self.library_bytes, self.calls = 0, []

    def ready(self, addresses):
        self.calls.append(("ready", tuple(addresses)))

    def launch(self, stream, scratch, addresses, scalars):
        self.calls.append(("launch", stream, scratch, tuple(addresses), tuple(scalars)))
        return self.answers.pop(0) if self.answers else 0

    def launch_unchecked(self, stream, scratch, addresses, scalars):
        self.calls.append(("unchecked", stream, scratch, tuple(addresses), tuple(scalars)))
        return self.answers.pop(0) if self.answers else 0

    def check(self, status):
        raise Failure(status)

    @property
    def names(self):
        return [call[0] for call in self.calls]


class Copying(Plan):
    """A family: one input, one output, and whatever executable it is given."""

    def __init__(self, one, *executables, **options):
        super().__init__("test.copy", ("x", "out"), (one._numbacc_layout,), (one._numbacc_layout,))
        self.executables = list(executables)
        for name, value in options.items():
            setattr(self, name, value)

    def _make(self, key, trial):
        self.trial = trial
        return self.executables.pop(0)


@pytest.fixture
def pair():
    return array(), array()


def run(plan, x, out, stream=0, scalars=()):
    return plan.run((x,), (out,), out, stream, scalars)


def test_the_short_way_is_one_launch(pair):
    x, out = pair
    found = Executable()
    plan = Copying(x, found)
    for _ in range(3):
        assert run(plan, x, out, scalars=(7, -1)) is out
    assert found.calls == [("launch", 0, 0, (x._address, out._address), (7, -1))] * 3
    assert "test on cuda:0" in repr(plan)


@pytest.mark.parametrize("code", [MAY_OVERLAP, CAPTURING])
def test_what_must_be_looked_at_is_looked_at_and_launched(pair, code):
    x, out = pair
    found = Executable([code])
    plan = Copying(x, found)
    run(plan, x, out)
    assert found.names == ["launch", "unchecked"]
    found.answers = [code, code]
    run(plan, x, out)  # by the short way, behind a look, and unchecked
    assert found.names[2:] == ["launch", "launch", "unchecked"]


def test_overlap_is_refused_before_anything_is_launched(pair):
    x, _ = pair
    found = Executable([MAY_OVERLAP])
    with pytest.raises(numbacc.LayoutError, match="out overlaps x"):
        run(Copying(x, found), x, x)
    assert found.names == ["launch"]


def test_another_alignment_gets_another_executable():
    whole = numbacc.empty(64, "float32")
    x, out, moved = whole[:16], whole[16:32], whole[33:49]
    one, other = Executable([0, WRONG_ALIGNMENT]), Executable()
    plan = Copying(x, one, other)
    run(plan, x, out)
    run(plan, x, moved)
    assert (one.names, other.names) == (["launch", "launch"], ["launch"])
    run(plan, x, moved)
    run(plan, x, out)
    assert len(other.calls) == 3 and len(plan.chosen.made) == 2


def test_a_librarys_failure_is_its_own_error(pair):
    x, out = pair
    found = Executable([3])
    with pytest.raises(Failure):
        run(Copying(x, found), x, out)
    assert found.names == ["launch"]


def test_scratch_memory_is_lent(pair, log):
    x, out = pair
    found = Executable(nbytes=4096)
    plan = Copying(x, found)
    for _ in range(3):
        run(plan, x, out)
    (scratch,) = {call[2] for call in found.calls}
    assert scratch == only([c for c in log.named("allocate") if c.arguments[1] == 4096]).arguments[0]


def test_results_are_made_on_the_stream(pair, log):
    x, _ = pair
    s = numbacc.stream()
    y = Copying(x, Executable()).run((x,), None, None, s.handle)
    assert y._numbacc_layout is x._numbacc_layout and y._storage.stream == s.handle
    assert log.named("wait")  # x is from another


def test_an_empty_result_touches_nothing(log):
    x = numbacc.empty((0, 4))
    plan = Copying(x, empty=True)
    y = plan.run((x,), None, None, 0)
    assert y.shape == (0, 4) and not plan.chosen.made and not log.named("launch", "wait", "record")
    assert plan.info.algorithm == "no launch: the result is empty"


def test_an_input_that_is_overwritten_counts_as_written(pair, log):
    x, out = pair
    s, t = numbacc.stream(), numbacc.stream()
    run(Copying(x, Executable(), overwritten=(0,)), x, out, s.handle)
    reads = len(log.named("wait"))
    numbacc.asnumpy(x, stream=t)  # waits for what was written on s
    assert len(log.named("wait")) > reads
    x._readonly = True
    with pytest.raises(numbacc.LayoutError, match="x is read-only"):
        run(Copying(x, Executable(), overwritten=(0,)), x, out)


def test_a_graph_keeps_its_executable(pair):
    x, out = pair
    found = Executable()
    alive, plan = weakref.ref(found), Copying(x, found)
    del found
    with numbacc.graph() as g:
        run(plan, x, out, numbacc.current_stream().handle)
    del plan
    gc.collect()
    assert alive() is not None
    del g
    recorder.settle()
    gc.collect()
    assert alive() is None


def test_what_is_dropped_while_it_runs_lives_until_it_is_done(pair):
    """The cache lets go of a plan in the middle of its launch."""
    x, out = pair
    found, seen = Executable(), []

    def launch(*arguments):
        plans.clear()
        gc.collect()
        seen.append(alive() is not None)
        return 0

    found.launch = launch
    plans = [Copying(x, found)]
    alive = weakref.ref(found)
    del found
    run(plans[0], x, out)
    gc.collect()
    assert seen == [True] and alive() is None


def test_measured_executables_are_chosen_where_they_may_be_measured(pair):
    x, out = pair
    first, second = Executable(), Executable()
    plan = Copying(x, first, second, tunes=True)
    plan.prepare((x,), (out,))
    assert plan.trial is None and not plan.chosen.made  # nothing was run yet
    run(plan, x, out, scalars=(5,))
    assert plan.trial == (0, [x._address, out._address], (5,)) and list(plan.chosen.made.values()) == [second]


def test_threads_have_executables_of_their_own_where_these_have_handles(pair):
    from threads import run_threads

    x, out = pair
    shared, own = Copying(x, Executable(), Executable()), type("Own", (Copying,), {"per_thread": True})
    plan = own(x, Executable(), Executable())
    for each in (shared, plan):
        run(each, x, out)
        run_threads(lambda k, each=each: run(each, x, out), 1)
    assert (len(shared.executables), len(plan.executables)) == (1, 0)


# ---------------------------------------------------------------- steps


def steps(plan, *made, scratch=None, fits=True):
    return Steps(made, scratch or Scratch(), plan.close, lambda addresses: fits, backend="test", algorithm="several")


def test_steps_share_scratch_memory_and_take_the_short_way(pair, log):
    x, out = pair
    numbacc.release_memory()
    one, two, scratch = Executable(nbytes=100), Executable(nbytes=300), Scratch()
    part = 2 + scratch.part(1000)
    plan = Copying(x)
    plan.executables = [
        steps(
            plan,
            Step(one, (0, part), takes_scalars=True),
            Step(two, (part, 1, -1), ((0, 0, 0), (8, 16, 0))),
            scratch=scratch,
        )
    ]
    for _ in range(2):
        run(plan, x, out, scalars=(3,))
    whole = only([c for c in log.named("allocate") if c.arguments[1] == 1024 + 300]).arguments[0]
    assert one.calls == [("launch", 0, whole + 1024, (x._address, whole), (3,))] * 2
    runs = [("unchecked", 0, whole + 1024, (whole + 8 * k, out._address + 16 * k, 0), ()) for k in range(2)]
    assert two.calls == 2 * runs
    assert plan.info.workspace_bytes == 1324


def test_steps_are_looked_at_once(pair):
    x, out = pair
    one, two = Executable(), Executable([9])
    plan = Copying(x)
    plan.executables = [steps(plan, Step(one, (0, 1)), Step(two, (1,)))]
    with pytest.raises(Failure):
        run(plan, x, out)
    plan.choose((0, 0))
    one.answers, one.calls[:], two.calls[:] = [CAPTURING, CAPTURING], [], []
    run(plan, x, out)
    assert one.names == ["launch", "launch", "unchecked"] and two.names == ["unchecked"]
    with pytest.raises(numbacc.LayoutError, match="overlaps"):
        run(plan, x, x)
    assert one.names == ["launch", "launch", "unchecked"]


def test_steps_for_other_addresses_are_left(pair):
    x, out = pair
    one, plan = Executable(), Copying(x)
    plan.executables = [steps(plan, Step(one, (0, 1)), fits=False)]
    assert plan.choose((0, 0)).launch(0, 0, (x._address, out._address), ()) == WRONG_ALIGNMENT
    assert not one.calls


def test_bytes_are_copied_and_cleared_in_order(pair, log):
    x, out = pair
    plan = Copying(x)
    plan.executables = [steps(plan, Step(CopyBytes(16, 0), (0, 1)), Step(ZeroBytes(8, 0), (1,)))]
    run(plan, x, out)
    run(plan, x, out)
    assert [call.name for call in log.calls if call.name in ("copy", "fill")][-4:] == ["copy", "fill"] * 2


def test_kernels_behind_a_call_with_scalars_take_none_of_them(pair, log):
    """As alpha and beta of a matrix product, which the kernels of its epilogue know nothing of."""
    x, out = pair
    kernel = map_plan("epilogue.relu", (out._numbacc_layout,), (out._numbacc_layout,))
    plan = Copying(x)
    plan.executables = [steps(plan, Step(Executable(), (0, 1), takes_scalars=True), Step(kernel, (1, 1)))]
    for _ in range(2):
        run(plan, x, out, scalars=(3, 4))
    assert len(log.named("launch")) == 2
