"""NVIDIA's C headers, read by libclang: enums, structs and functions as the C compiler sees them.

libclang's wheel brings no headers of its own, and those of the C library differ between machines, so the few that
NVIDIA's include are made up here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clang.cindex import CursorKind, Diagnostic, Index, TranslationUnit, Type, TypeKind

#: A folder that does not exist: libclang is handed its files from memory.
_FOLDER = "/made-up-headers"
_MAIN = f"{_FOLDER}/main.c"
_FILES = {
    "stddef.h": "typedef __SIZE_TYPE__ size_t;",
    "stdint.h": "\n".join(
        f"typedef __{sign.upper()}INT{bits}_TYPE__ {sign}int{bits}_t;" for sign in ("", "u") for bits in (8, 16, 32, 64)
    ),
    "stdio.h": "typedef struct FILE FILE;",
    "stdlib.h": "#include <stddef.h>",
    # The real ones are long, and of them curand.h and cudnn_graph.h need a few types.
    **dict.fromkeys(["cuda_runtime.h", "cuda_runtime_api.h"], "#include <driver_types.h>\n#include <library_types.h>"),
    # What they declare appears in no declaration of a binding.
    **dict.fromkeys(["limits.h", "math.h", "cuda_bf16.h", "cuda_fp16.h"], ""),
    # In CUDA's compiler, not in its runtime.
    "crt/host_defines.h": """
#define __host__
#define __device__
#define __device_builtin__
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
""",
}

#: C type -> its letter in `_library.TYPES`; size_t is known by its name, pointers by what they point to.
_LETTERS = {
    TypeKind.INT: "i",
    TypeKind.ENUM: "i",
    TypeKind.UINT: "u",
    TypeKind.ULONG: "L",
    TypeKind.ULONGLONG: "L",
    TypeKind.LONG: "q",
    TypeKind.LONGLONG: "q",
    TypeKind.UCHAR: "b",
    TypeKind.USHORT: "h",
    TypeKind.DOUBLE: "d",
    TypeKind.FLOAT: "f",
    TypeKind.VOID: "",
    TypeKind.INCOMPLETEARRAY: "p",
    TypeKind.CONSTANTARRAY: "p",
}


class Header:
    """What headers declare.

    Args:
        names: the headers, which are included in this order.
        folders: where they lie, and those that they include.
        constants: C expressions of integers, such as the names of macros; one at least.

    Attributes:
        constants: these expressions -> their values.
        functions: name -> (letters of the parameters, letter of the result, C type of the result).
    """

    def __init__(self, names: Iterable[str], folders: Iterable[str], constants: Sequence[str]):
        numbered = ", ".join(f"constant_{n} = ({constant})" for n, constant in enumerate(constants))
        main = "\n".join([*(f"#include <{name}>" for name in names), f"enum constants {{ {numbered} }};"])
        files = {_MAIN: main, **{f"{_FOLDER}/{name}": text + "\n" for name, text in _FILES.items()}}
        unit = Index.create().parse(
            _MAIN,
            # cuda.h renames functions that have a newer version; by this macro it declares the older ones as well.
            ["-nostdinc", "-D__CUDA_API_VERSION_INTERNAL", f"-I{_FOLDER}", *(f"-I{folder}" for folder in folders)],
            unsaved_files=list(files.items()),
            options=TranslationUnit.PARSE_SKIP_FUNCTION_BODIES,
        )
        errors = [str(found) for found in unit.diagnostics if found.severity >= Diagnostic.Error]
        assert not errors, errors
        self._types: dict[str, Type] = {}
        self.functions: dict[str, tuple[str, str, str]] = {}
        for cursor in unit.cursor.get_children():
            if cursor.kind in (CursorKind.TYPEDEF_DECL, CursorKind.ENUM_DECL, CursorKind.STRUCT_DECL):
                self._types[cursor.spelling] = cursor.type.get_canonical()
            elif cursor.kind == CursorKind.FUNCTION_DECL:
                letters = "".join(letter(parameter.type) for parameter in cursor.get_arguments())
                self.functions[cursor.spelling] = (letters, letter(cursor.result_type), cursor.result_type.spelling)
        values = self.enum("constants")
        self.constants = {constant: values[f"constant_{n}"] for n, constant in enumerate(constants)}

    def enum(self, name: str) -> dict[str, int]:
        """Member -> value of an enum; nothing where there is no such enum."""
        if name not in self._types:
            return {}
        return {member.spelling: member.enum_value for member in self._types[name].get_declaration().get_children()}

    def struct(self, name: str) -> dict[str, tuple[int, int]]:
        """Field -> (its place, its size) in bytes, of a struct; "" -> those of all."""
        return {**dict(_fields(self._types[name])), "": (0, self._types[name].get_size())}


def _fields(type: Type, start: int = 0) -> Iterator[tuple[str, tuple[int, int]]]:
    for field in type.get_fields():
        place = start + field.get_field_offsetof() // 8
        if field.spelling.isidentifier():
            yield field.spelling, (place, field.type.get_size())
        else:  # the members of a union without a name are members of the struct
            yield from _fields(field.type, place)


def letter(type: Type) -> str:
    """The letter of `_library.TYPES` that declares a type, "?" where there is none."""
    canonical = type.get_canonical()
    if canonical.kind == TypeKind.POINTER:
        to = canonical.get_pointee()
        text = to.kind in (TypeKind.CHAR_S, TypeKind.CHAR_U) and to.is_const_qualified()
        return "s" if text else "p"
    return "z" if type.spelling == "size_t" else _LETTERS.get(canonical.kind, "?")
