"""Plans: what is decided once for given layouts and options, and kept."""
