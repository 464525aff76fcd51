"""GPU kernels, a folder for each subject, and their launches; `runtime.kernel_code` finds a kernel by its spec."""
