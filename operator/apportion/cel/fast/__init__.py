"""A checked selector as one Python expression, where that is possible."""
