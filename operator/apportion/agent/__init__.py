"""The node side: discover, publish, cut, prepare."""
