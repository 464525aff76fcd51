"""GPU kernels: `formulas` holds the scalar math, `maps` the kernels that apply it to arrays, `bits` those with masks
of bits, `reductions` those that reduce, `draws` those that make random numbers, `repack` those that bring arrays into
and out of the form in which a Fourier transform is computed; `registry` finds a kernel by its spec."""
