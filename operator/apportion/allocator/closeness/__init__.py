"""Which devices of a node are close to each other, and the closest set that serves a demand."""
