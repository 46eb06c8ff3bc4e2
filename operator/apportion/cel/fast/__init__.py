"""Step 3, the fast form: a checked selector to one Python expression, where that is possible."""
