"""How the application runs: start, garbage collection, logging, settings, language."""
