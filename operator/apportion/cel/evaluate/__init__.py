"""A checked selector as closures, with CEL's exact semantics and costs."""
