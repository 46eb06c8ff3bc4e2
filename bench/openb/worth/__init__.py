"""A twin of the strategy on the openb model, kept as a bound: what a placement is worth with the demand known."""
