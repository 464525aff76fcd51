"""The GPU: contexts, memory and its order, streams, graphs, launches, native calls, caches of compiled code."""
