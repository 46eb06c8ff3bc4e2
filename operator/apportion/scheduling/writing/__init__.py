"""Writing: what a pass has decided upon, to claims and pods, fenced by the lease."""
