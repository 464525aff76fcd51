"""C libraries that tests compile."""

from __future__ import annotations

import shutil
import subprocess

from skips import skip_if

CC = shutil.which("cc")


needs_compiler = skip_if(CC is None, "compiler")


STUB = r"""
#include <stddef.h>
#include <string.h>

static void *current;
unsigned long long seen[6];

int cuInit(unsigned int status) { return (int)status; }
int cuGetErrorName(int status, const char **text) {
    *text = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : status == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS" : NULL;
    return *text ? 0 : 1;
}
int cuGetErrorString(int status, const char **text) {
    *text = status == 2 ? "out of memory" : status == 700 ? "an illegal memory access" : NULL;
    return *text ? 0 : 1;
}
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuDeviceGetCount(int *count) { *count = 1; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Stub GPU", size); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 75 ? 8 : attribute == 76 ? 6 : 1;
    return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &current; return 0; }
int cuCtxGetCurrent(void **context) { *context = current; return 0; }
int cuCtxSetCurrent(void *context) { current = context; return 0; }
int cuMemGetInfo_v2(size_t *free, size_t *total) {
    *free = (size_t)20 << 30;
    *total = (size_t)24 << 30;
    return 0;
}
int cuMemsetD2D32Async(unsigned long long dst, size_t pitch, unsigned int ui, size_t width, size_t height,
                       void *stream) {
    seen[0] = dst; seen[1] = pitch; seen[2] = ui; seen[3] = width; seen[4] = height;
    seen[5] = (unsigned long long)stream;
    return 0;
}
"""


def compile_library(source, path):
    subprocess.run([CC, "-shared", "-fPIC", "-x", "c", "-", "-o", path], input=source, text=True, check=True)
    return path
