"""What a launcher answers beside 0 and the driver's own status numbers, which are positive."""

#: Another context is current in this thread, or none.
WRONG_CONTEXT = -1
#: The stream is being captured into a graph, so nothing was freed.
CAPTURING = -2
#: An address is not aligned as the kernel was chosen for.
WRONG_ALIGNMENT = -3
#: An output's bytes may be an input's: to be looked at closely.
MAY_OVERLAP = -4
#: An allocation's CUresult comes back as FAILED - CUresult.
FAILED = -1024

#: Arrays that a launch takes; the address of those that are not there is 0.
ARRAYS = 6
