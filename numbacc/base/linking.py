"""The LLVM code of kernels, each piece once, though many device functions call it."""

from __future__ import annotations

from typing import Any

__all__ = ["finalize", "modules", "texts"]


def modules(library: Any) -> list[Any]:
    """As `CUDACodeLibrary.modules`, which has those that are linked into several once for each."""
    found, waiting = {}, [library]
    while waiting:
        each = waiting.pop()
        if each not in found:
            found[each] = each._module
            waiting.extend(each._linking_libraries)
    return list(found.values())


def texts(library: Any) -> list[str]:
    """As `CUDACodeLibrary.llvm_strs`: device functions, which other kernels call, too, are written once."""
    if library._llvm_strs is None:
        own, *others = library.modules
        for each in others:
            if not hasattr(each, "_numbacc_text"):
                each._numbacc_text = str(each)
        library._llvm_strs = [str(own), *(each._numbacc_text for each in others)]
    found: list[str] = library._llvm_strs
    return found


def finalize(library: Any) -> None:
    """As `CUDACodeLibrary.finalize`, which goes to what is linked into the linked libraries again and again."""
    library._raise_if_finalized()
    linkage = "weak_odr" if "g" in library._nvvm_options else "linkonce_odr"
    for each in library._linking_libraries:
        for function in each._module.functions:
            if not function.is_declaration:
                function.linkage = linkage
    library._finalized = True
