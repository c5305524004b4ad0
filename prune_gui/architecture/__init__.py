"""The units of a network, from the names and shapes of its parameters and from its config.json."""
