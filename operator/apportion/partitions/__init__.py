"""The control side of a partition's life: wanted, warm, released; layouts."""
