"""List the packages that are installed; setup.cfg has everything else, but `find:` there knows one folder only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setuptools import find_namespace_packages, find_packages, setup
from setuptools.command import editable_wheel


class EditableWheel(editable_wheel.editable_wheel):
    """Install `pip install -e .` by a .pth file that names folders.

    With packages in several folders, setuptools installs an import hook instead. Type checkers and editors do not run
    it, so they would not find numbacc.
    """

    def _select_strategy(self, name: str, tag: str, build_lib: Any) -> Any:
        folders = [Path(self.project_dir), Path(self.project_dir, "bindings")]
        try:
            return editable_wheel._StaticPth(self.distribution, name, folders)
        except AttributeError:  # another setuptools; imports work with the hook, too
            return super()._select_strategy(name, tag, build_lib)


setup(
    packages=[
        *find_packages(include=["numbacc", "numbacc.*"]),
        *find_packages("bindings"),
        # The notebooks lie in a folder of their own, and are installed as if they lay in the package.
        "numbacc.notebooks",
        *(f"numbacc.notebooks.{name}" for name in find_namespace_packages("notebooks", exclude=["__pycache__"])),
    ],
    cmdclass={"editable_wheel": EditableWheel},
)
