"""What free room is worth to the demand: prices of shares, cores beside them, places that only rare shapes can use."""
