"""The command line, `numbacc COMMAND` or `python -m numbacc COMMAND`: what it says where it is asked for little."""

from __future__ import annotations

import pytest

import numbacc
from numbacc import bench
from numbacc.__main__ import main


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"numbacc {numbacc.__version__}\n"


@pytest.mark.parametrize("argv, status", [([], 2), (["--help"], 0), (["nothing"], 2)])
def test_usage_names_all_commands(capsys, argv, status):
    assert main(argv) == status
    out = capsys.readouterr().out
    assert all(f"\n  {command} " in out for command in ("info", "demo", "notebooks", "compile", "bench", "--version"))


def test_arguments_are_the_processs_by_default(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["numbacc", "--version"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("numbacc ")


def test_bench_without_a_subject_lists_them(capsys):
    assert main(["bench"]) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == list(bench.SUBJECTS)


def test_bench_of_something_unknown(capsys):
    with pytest.raises(SystemExit):
        main(["bench", "sorting"])
    assert (
        "unknown: sorting; there are arrays, attention, blocks, conv, elementwise, fft, gated"
        in capsys.readouterr().err
    )


def test_results_name_the_commit(monkeypatch, tmp_path):
    from numbacc.bench import harness

    monkeypatch.setenv("NUMBACC_COMMIT", "abc")
    assert harness.commit() == "abc"
    monkeypatch.delenv("NUMBACC_COMMIT")
    monkeypatch.setattr(harness, "__file__", str(tmp_path / "harness.py"))
    assert harness.commit() is None
