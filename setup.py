"""List the packages that are installed; setup.cfg has everything else, but `find:` there knows one folder only."""

from setuptools import find_namespace_packages, find_packages, setup

setup(
    packages=[
        *find_packages(include=["numbacc", "numbacc.*"]),
        *find_packages("bindings"),
        # The notebooks lie in a folder of their own, and are installed as if they lay in the package.
        "numbacc.notebooks",
        *(f"numbacc.notebooks.{name}" for name in find_namespace_packages("notebooks", exclude=["__pycache__"])),
    ]
)
