"""How anybody's module is called: its inputs, masks, positions, caches and outputs, described by an `Adapter`."""
