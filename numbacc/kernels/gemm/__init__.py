"""Matrix products with Python epilogues by Hopper's tensor cores."""
