"""The cluster that a command asks about: live or from a file, changed for the sake of the question, decoded as the operator does."""
