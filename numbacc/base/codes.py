"""What a launcher answers beside 0 and the driver's own status numbers, which are positive."""

#: Another context is current in this thread, or none.
WRONG_CONTEXT = -1
#: The stream is being captured into a graph, which must be told what it uses: nothing was done.
CAPTURING = -2
#: An address is not aligned as the kernel was chosen for.
WRONG_ALIGNMENT = -3
#: An output's bytes may be an input's: to be looked at closely.
MAY_OVERLAP = -4
#: An allocation's CUresult comes back as FAILED - CUresult.
FAILED = -1024

#: Arrays that a launch takes; the address of those that are not there is 0.
ARRAYS = 6

#: Arrays of a matrix product: a, b, c, out, bias or bias_grad, aux, and the scales of a, b, c, d and amax.
MATMUL_ARRAYS = ARRAYS + 5
#: cuBLASLt's algorithms depend on the greatest power of two, up to this one, that divides an address.
ALIGNED = 256
