"""`python -m numbacc train`: it learns, goes on from a checkpoint as if it had not stopped, and reports errors."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from skips import skip, skip_if

import numbacc
from numbacc import train
from numbacc.__main__ import main
from numbacc.base import dispatch
from numbacc.base.dispatch import simulated
from numbacc.runtime import device as runtime

#: A model that makes a step in milliseconds.
SMALL = {
    "steps": 30, "batch": 4, "length": 16, "width": 16, "layers": 1, "heads": 2, "kv_heads": 1, "dropout": 0.1,
    "rate": 2e-2, "dtype": "float32", "seed": 0,
}  # fmt: skip
ARGUMENTS = [
    text for key, value in SMALL.items() for text in (f"--{key.replace('_', '-')}", str(value))
] + ["--sample", "20", "--every", "20"]  # fmt: skip
pytestmark = skip_if(simulated(), "not simulated")


def test_the_text_that_is_shipped():
    text = train.read_text()
    assert text.decode(text.train[:27]) == "Creative Commons Legal Code"
    assert text.decode(text.encode("No ☃ words")) == "No  words"
    assert len(text.held_out) == pytest.approx(0.1 * (len(text.train) + len(text.held_out)), abs=1)
    given, wanted = train.batch_of(text.train, 5, 12, (0, 1))
    np.testing.assert_array_equal(given[:, 1:], wanted[:, :-1])
    assert given.shape == (5, 12) and given.dtype == np.int32 and given.flags.c_contiguous


def test_the_rate_grows_and_falls():
    training = train.Training(train.read_text(), {**SMALL, "steps": 100})
    rates = [training.rate(k) for k in range(101)]
    assert rates[4] == max(rates) == SMALL["rate"] and rates[0] == pytest.approx(SMALL["rate"] / 5)
    assert rates[100] == pytest.approx(0.1 * SMALL["rate"]) and rates[5:] == sorted(rates[5:], reverse=True)


def test_learning_goes_on_from_a_checkpoint(tmp_path):
    text = train.read_text()
    whole = train.Training(text, SMALL)
    losses = [found.loss for found in whole.run(30)]
    assert losses[-1] < 0.9 * losses[0] < math.log(len(text.characters)) + 0.1
    first, second = train.Training(text, SMALL), train.Training(text, {**SMALL, "seed": 0})
    list(first.run(10))
    first.save(tmp_path / "a.safetensors")
    second.load(tmp_path / "a.safetensors")
    assert (second.step, second.curve) == (10, whole.curve[:1])
    if not numbacc.has_gpu():  # a GPU's sums may be in another order
        list(second.run(30))
        assert second.curve == whole.curve
        for one, other in zip(*(each.model.state_dict().values() for each in (whole, second)), strict=True):
            np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="was written with --width 16"):
        train.Training(text, {**SMALL, "width": 32}).load(tmp_path / "a.safetensors")


def test_chart():
    lines = train.chart([(10, 4.0), (20, 2.0), (30, 1.0)], width=5, height=4).splitlines()
    assert lines == [
        "  4.00 |*",
        "       | *",
        "       |  **",
        "  1.00 |    *",
        "       +-----",
        "        10 30 steps",
    ]
    assert train.chart([(10, 1.0)]).splitlines()[9] == "  1.00 |" + "*" * 64


def test_command(tmp_path, capsys):
    path, text = tmp_path / "model.safetensors", tmp_path / "text"
    text.write_text("To be, or not to be: " * 100)
    command = ["train", *ARGUMENTS, "--checkpoint", str(path), "--text", str(text), "--start", "To be"]
    assert main(command) == 0
    shown = capsys.readouterr()
    for part in ("characters to learn from", "parameters in float32", "tokens per second", "\nTo be", "step 20: held"):
        assert part in shown.out, part
    assert "100%" in shown.err and path.exists()
    assert main([*command, "--steps", "40"]) == 0
    assert "going on after step 30" in capsys.readouterr().out
    assert main([*command, "--layers", "2"]) == 1
    assert "was written with --layers 1" in capsys.readouterr().err


def test_two_processes_train_as_one(tmp_path, capfd):
    """`--gpus 2` starts two processes, which share each batch; without GPUs they train on NumPy."""
    if numbacc.has_gpu() and runtime.device_count() < 2:
        skip("two gpus")
    curves = []
    for gpus in ("1", "2"):
        path = tmp_path / f"{gpus}.safetensors"
        command = [*ARGUMENTS, "--dropout", "0", "--steps", "10", "--gpus", gpus, "--checkpoint", str(path)]
        assert main(["train", *command]) == 0
        assert ("2 processes" in capfd.readouterr().out) == (gpus == "2")
        curves.append(json.loads(numbacc.load_metadata(path)["curve"]))
    np.testing.assert_allclose(curves[1], curves[0], rtol=1e-5)


def test_what_is_wrong(tmp_path, monkeypatch, capsys):
    (tmp_path / "short").write_text("abc")
    for arguments, message in (
        (["--text", str(tmp_path / "none")], "No such file"),
        (["--text", str(tmp_path / "short")], "at least 1000"),
        (["--length", "5000"], "too short"),
        (["--heads", "3", "--width", "32"], "must be a multiple"),
    ):
        assert train.main(arguments) == 1
        assert message in capsys.readouterr().err
    for arguments in (["--gpus", "0"], ["--steps", "0"], ["--rate", "0"], ["--seed", "-1"], ["--batch", "many"]):
        with pytest.raises(SystemExit) as exit:
            train.main(arguments)
        assert exit.value.code == 2 and "usage: python -m numbacc train" in capsys.readouterr().err
    monkeypatch.setattr(dispatch, "simulated", lambda: True)
    assert train.main([]) == 1
    assert "simulator" in capsys.readouterr().err
    monkeypatch.setattr(dispatch, "simulated", lambda: False)
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert train.main([]) == 1
    assert capsys.readouterr().err.endswith('\npip install "numbacc[demo]"\n')


def test_an_interrupt_keeps_what_was_learnt(tmp_path, monkeypatch, capsys):
    path, run = tmp_path / "a.safetensors", train.Training.run

    def interrupted(self, steps):
        yield from run(self, 10)
        raise KeyboardInterrupt

    monkeypatch.setattr(train.Training, "run", interrupted)
    assert main(["train", *ARGUMENTS, "--checkpoint", str(path)]) == 0
    assert "stopped after step 10" in capsys.readouterr().err and path.exists()


@pytest.mark.gpu
def test_learning_on_a_gpu(tmp_path):
    """In bfloat16, by launches of one graph after two steps; a checkpoint goes on with the same losses."""
    text, options = train.read_text(), {**SMALL, "dtype": "bfloat16", "steps": 60}
    whole = train.Training(text, options)
    losses = [found.loss for found in whole.run(60)]
    assert losses[-1] < 0.9 * losses[0]
    first, second = train.Training(text, options), train.Training(text, options)
    list(first.run(20))
    first.save(tmp_path / "a.safetensors")
    second.load(tmp_path / "a.safetensors")
    list(second.run(60))
    np.testing.assert_allclose([loss for _, loss in second.curve], losses, rtol=0.02)
    assert len(second.sample("The ", 20)) == 24
