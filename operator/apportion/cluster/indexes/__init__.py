"""The objects of a snapshot by what they are asked for: each index is kept by every change of its objects."""
