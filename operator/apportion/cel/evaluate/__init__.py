"""Step 3: a checked selector to closures, with CEL's exact semantics and costs."""
