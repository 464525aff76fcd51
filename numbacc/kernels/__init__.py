"""GPU kernels: `formulas` holds the scalar math, `maps` the kernels that apply it to arrays."""
