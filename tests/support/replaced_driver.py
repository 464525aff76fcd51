"""What stands in for the CUDA driver: C code that is compiled here, loaded in a process of its own before all else."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from paths import ROOT, SUPPORT, pythonpath

CC = shutil.which("cc")


class Replacement(NamedTuple):
    """A driver of our own.

    Attributes:
        plugin: the module that loads it when it is imported, pytest's plugin in those processes.
        source: its C code, where `load` compiles it.
    """

    plugin: str
    source: str = ""

    @property
    def _variable(self) -> str:
        return f"NUMBACC_{self.plugin.upper()}"

    def run(self, *files: Path) -> None:
        """Run files of tests in a process with this driver."""
        report = self._python("-m", "pytest", "-q", "-p", self.plugin, "-p", "no:cacheprovider", *map(str, files))
        assert " passed" in report, report

    def run_code(self, code: str) -> None:
        """Run Python in such a process: its driver is this one as soon as it has imported the plugin."""
        self._python("-c", code)

    def _python(self, *arguments: str) -> str:
        environment = {**os.environ, self._variable: "1", "PYTHONPATH": pythonpath()}
        done = subprocess.run([sys.executable, *arguments], env=environment, cwd=ROOT, capture_output=True, text=True)
        report = done.stdout[-8000:] + done.stderr[-2000:]
        assert done.returncode == 0, report
        return report

    def installed(self) -> bool:
        """True in a process that `run` started."""
        return bool(os.environ.get(self._variable))

    def load(self) -> ctypes.CDLL:
        """This driver, from now on the process's."""
        folder = tempfile.mkdtemp()
        path = Path(folder) / "libcuda.so.1"
        command = [CC, "-shared", "-fPIC", "-O1", "-w", "-Wl,-soname,libcuda.so.1", SUPPORT / self.source, "-o", path]
        subprocess.run(command, check=True)
        loaded = ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        shutil.rmtree(folder)
        return loaded
