"""The digits demo: it learns, it notices a wrong gradient, and its exit status tells."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from skips import skip

import numbacc
from numbacc import demo, gated, gemm
from numbacc.base import dispatch
from numbacc.runtime import timing

BANDWIDTH_TABLE = demo.bandwidth_table


@pytest.fixture(scope="module")
def digits() -> demo.Digits:
    return demo.load_digits(seed=0)


@pytest.fixture(autouse=True)
def bandwidth(monkeypatch):
    """Replace the table of bandwidths, which is slow on a GPU. Other tests cover it."""
    monkeypatch.setattr(demo, "bandwidth_table", lambda: "table of bandwidths")


def test_split_is_disjoint_and_standardised_by_the_training_images(digits):
    train = {image.tobytes() for image in digits.train_images}
    assert not train & {image.tobytes() for image in digits.test_images}
    assert len(digits.train_images) + len(digits.test_images) == 1797
    np.testing.assert_allclose(digits.train_images.mean(axis=0), 0, atol=1e-6)
    # Statistics of all images would centre these too.
    assert np.abs(digits.test_images.mean(axis=0)).max() > 1e-3


def test_same_seed_same_result(digits):
    runs = []
    for _ in range(2):
        parameters = demo.initial_parameters(seed=3)
        runs.append((list(demo.train(parameters, digits, "swiglu", 1, seed=3)), parameters["W1"]))
    assert runs[0][0] == runs[1][0]
    np.testing.assert_array_equal(runs[0][1], runs[1][1])


@pytest.mark.parametrize("kind", gated.KINDS)
def test_loss_decreases(digits, kind):
    parameters = demo.initial_parameters()
    losses = list(demo.train(parameters, digits, kind, 3))
    assert losses[2] < losses[1] < losses[0] < 2 * np.log(10)  # log 10 is the loss of a uniform guess
    assert all(value.dtype == np.float32 for value in parameters.values())


@pytest.mark.parametrize("kind", gated.KINDS)
def test_gradient_check_passes(digits, kind):
    checks = demo.check_gradients(digits, kind)
    assert [check.parameter for check in checks] == ["W1", "b1", "W2", "b2"]
    assert max(check.error for check in checks) < demo.GRADIENT_TOLERANCE


def _other_kind(dy, x, kind):
    return _BACKWARD(dy, x, "geglu_tanh")


def _no_gate_gradient(dy, x, kind):
    dx = numbacc.asnumpy(_BACKWARD(dy, x, kind)).copy()
    dx[:, dx.shape[1] // 2 :] = 0
    return numbacc.asarray(dx)


def _zero(dy, x, kind):
    return numbacc.zeros(x.shape, x.dtype)


def _nan(dy, x, kind):
    return numbacc.full(x.shape, np.nan, x.dtype)


_BACKWARD = gated.backward


@pytest.mark.parametrize("broken", [_other_kind, _no_gate_gradient, _zero, _nan])
def test_wrong_backward_fails_the_check_and_the_demo(digits, monkeypatch, capsys, broken):
    monkeypatch.setattr(broken, "plan", _BACKWARD.plan, raising=False)
    monkeypatch.setattr(gated, "backward", broken)
    # The accuracy is left out of it: the check alone must set the status.
    monkeypatch.setattr(demo, "REQUIRED_ACCURACY", -1.0)
    errors = {check.parameter: check.error for check in demo.check_gradients(digits, "geglu")}
    for below in ("W1", "b1"):
        assert not errors[below] < demo.GRADIENT_TOLERANCE
    for above in ("W2", "b2"):
        assert errors[above] < demo.GRADIENT_TOLERANCE
    assert demo.main(["--kind", "geglu", "--epochs", "1"]) == 1
    assert "required below 1e-06: FAIL" in capsys.readouterr().out


def _mean_as_bias_gradient(dy, saved):
    dx, dw, db = _LINEAR_BACKWARD(dy, saved)
    return dx, dw, numbacc.asarray(numbacc.asnumpy(db) / len(dy))


def _weight_gradient_of_another_batch(dy, saved):
    dx, _, db = _LINEAR_BACKWARD(dy, saved)
    other = numbacc.asnumpy(saved.x)[::-1].T @ numbacc.asnumpy(dy)
    return dx, numbacc.asarray(other), db


def _no_input_gradient(dy, saved):
    dx, dw, db = _LINEAR_BACKWARD(dy, saved)
    return numbacc.zeros(dx.shape, dx.dtype), dw, db


_LINEAR_BACKWARD = gemm.linear_backward


@pytest.mark.parametrize(
    ("broken", "wrong"),
    [
        (_mean_as_bias_gradient, {"b1", "b2"}),
        (_weight_gradient_of_another_batch, {"W1", "W2"}),
        (_no_input_gradient, {"W1", "b1"}),
    ],
)
def test_wrong_dense_backward_fails_the_check(digits, monkeypatch, broken, wrong):
    monkeypatch.setattr(gemm, "linear_backward", broken)
    checks = demo.check_gradients(digits, "swiglu")
    assert {check.parameter for check in checks if not check.error < demo.GRADIENT_TOLERANCE} == wrong


def test_what_ran_where_is_what_a_step_runs(digits):
    gemm.cache_clear()
    gated.cache_clear()
    parameters = demo.initial_parameters()
    images, labels = digits.train_images[: demo.BATCH], digits.train_labels[: demo.BATCH]
    demo.backprop(parameters, images, labels, "swiglu")
    shown = demo.what_ran_where(parameters, digits, "swiglu")
    # No plan in the table is another one than the step made, and none of the step's is missing.
    assert gemm.cache_info().misses == shown.count("gemm.matmul") == 6
    assert gated.cache_info().misses == shown.count(" gated.") == 2
    assert shown.count("cuda:" if dispatch.has_gpu() else "cpu") == 8


def test_main(monkeypatch, capsys):
    reached = []
    accuracy = demo.accuracy
    monkeypatch.setattr(demo, "accuracy", lambda *args: reached.append(accuracy(*args)) or reached[-1])
    assert demo.main([]) == 0
    assert reached[0] > 0.95
    shown = capsys.readouterr()
    assert f"held-out accuracy {reached[0]:.1%}, required above 95%: pass" in shown.out
    assert "required below 1e-06: pass" in shown.out
    for operation in ("gated.forward", "gated.backward", "gemm.matmul.bias", "gemm.matmul.bgradb"):
        assert f"  {operation}  " in shown.out
    assert "100%" in shown.err  # the progress bar


@pytest.mark.parametrize("gpu", [True, False])
def test_bandwidth_follows_on_a_gpu_only(monkeypatch, capsys, gpu):
    monkeypatch.setattr(dispatch, "has_gpu", lambda: gpu)
    demo.main(["--epochs", "1"])
    assert ("table of bandwidths" in capsys.readouterr().out) == gpu


def shares(text):
    """(kind, direction) -> the share of a copy's speed, in percent."""
    lines = [line.split() for line in text.splitlines()[2:]]
    return {(kind, direction): int(share.removesuffix("%")) for kind, direction, _, share in lines}


def test_bandwidths_are_of_all_bytes_that_are_moved(monkeypatch):
    """A clock that knows each copy's bytes: work that takes twice as long has half the speed."""
    if dispatch.has_gpu():
        skip("no gpu")
    copied = []

    def timed(works, *, repeats):
        works["gated"]()
        return {"gated": 2.0, "copy": 1.0}

    monkeypatch.setattr(timing, "gpu_ms", timed)
    monkeypatch.setattr(timing, "copy_of", copied.append)
    text = BANDWIDTH_TABLE(4, 8)
    assert shares(text) == {(kind, way): 50 for kind in gated.KINDS for way in ("forward", "backward")}
    assert copied == [2 * (64 + 32), 2 * (32 + 64 + 64)] * len(gated.KINDS)


@pytest.mark.gpu
def test_bandwidths_on_a_gpu():
    found = shares(BANDWIDTH_TABLE(4096, 8192))
    assert len(found) == 2 * len(gated.KINDS) and all(40 < share < 130 for share in found.values())


def test_low_accuracy_fails(monkeypatch, capsys):
    monkeypatch.setattr(demo, "accuracy", lambda *args: 0.95)
    assert demo.main(["--epochs", "1"]) == 1
    assert "held-out accuracy 95.0%, required above 95%: FAIL" in capsys.readouterr().out


@pytest.mark.parametrize("missing", ["sklearn", "tqdm"])
def test_missing_package(monkeypatch, capsys, missing):
    for name in [m for m in sys.modules if m.partition(".")[0] == missing]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert demo.main([]) == 1
    message = capsys.readouterr().err
    assert missing in message
    assert message.endswith('\npip install "numbacc[demo]"\n')


def test_simulator_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(dispatch, "simulated", lambda: True)
    assert demo.main([]) == 2
    assert "simulator" in capsys.readouterr().err


@pytest.mark.parametrize("wrong", [["--kind", "relu"], ["--epochs", "0"], ["--epochs", "many"], ["--seed", "-1"]])
def test_wrong_options(wrong, capsys):
    with pytest.raises(SystemExit) as exit:
        demo.main(wrong)
    assert exit.value.code == 2
    assert "usage: python -m numbacc demo" in capsys.readouterr().err
