"""Compile CUDA kernels for the CPU: threads become loops, barriers split them into phases.

`kernel.Kernel` is the entry. Its steps have a module each: `source` reads a kernel, `normalize` simplifies its syntax,
`inference` finds the types of its variables, `analysis` which of them differ between threads, and `phases` emits
loops over the threads of a block. `arithmetic` compiles these. `functions`, `atomics` and `warps` hold scalar functions
that kernels call, and `checks` what the checked mode adds.
"""
