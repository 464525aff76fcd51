"""Plans: decisions for given layouts and options, made once and cached."""
