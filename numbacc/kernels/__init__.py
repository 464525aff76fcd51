"""GPU kernels: `formulas` holds the scalar math, `maps` the kernels that apply it to arrays, `bits` those with masks
of bits, `sums` those that sum; `registry` finds a kernel by its spec."""
