"""GPU kernels: `formulas` holds the scalar math, `maps` the kernels that apply it to arrays, `bits` those with masks
of bits, `sums` those that sum, `draws` those that make random numbers, `arrange` the one that brings arrays into and
out of the form in which a Fourier transform is computed; `registry` finds a kernel by its spec."""
