"""The command line, `numbacc COMMAND` or `python -m numbacc COMMAND`: what it says where it is asked for little."""

from __future__ import annotations

import subprocess
import sys

import pytest
from paths import ROOT

import numbacc
from benchmarks import __main__ as benchmarks
from benchmarks import harness
from numbacc.__main__ import main


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"numbacc {numbacc.__version__}\n"


@pytest.mark.parametrize("argv, status", [([], 2), (["--help"], 0), (["nothing"], 2)])
def test_usage_names_all_commands(capsys, argv, status):
    assert main(argv) == status
    out = capsys.readouterr().out
    assert all(
        f"\n  {command} " in out for command in ("info", "demo", "train", "notebooks", "compile", "launch", "--version")
    )
    assert "bench" not in out and "check" not in out


def test_arguments_are_the_processs_by_default(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["numbacc", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("numbacc ")


@pytest.mark.parametrize(
    "given, instead",
    [
        ("bench gated --quick", "python -m benchmarks gated --quick"),
        ("bench", "python -m benchmarks"),
        ("check conv", "python -m tools.check conv"),
    ],
)
def test_commands_that_have_moved_say_where(capsys, given, instead):
    assert main(given.split()) == 2
    assert capsys.readouterr().out.endswith(f" run {instead}\n")


@pytest.mark.parametrize("package", ["benchmarks", "tools.check"])
def test_tools_run_in_a_checkout(package):
    command = [sys.executable, "-m", package, "--help"]
    shown = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    assert shown.startswith(f"usage: python -m {package} ")


def test_benchmarks_without_a_subject_lists_them(capsys):
    assert benchmarks.main([]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(benchmarks.SUBJECTS)


def test_benchmarks_of_something_unknown(capsys):
    with pytest.raises(SystemExit):
        benchmarks.main(["sorting"])
    assert (
        "unknown: sorting; there are arrays, attention, blocks, conv, distributed, elementwise, fft, gated"
        in capsys.readouterr().err
    )


def test_results_name_the_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("NUMBACC_COMMIT", "abc")
    assert harness.commit() == "abc"
    monkeypatch.delenv("NUMBACC_COMMIT")
    monkeypatch.setattr(harness, "__file__", str(tmp_path / "harness.py"))
    assert harness.commit() is None
