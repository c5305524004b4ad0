"""Statistics of a network, recorded while the user's own loop runs it, as files of scores."""
