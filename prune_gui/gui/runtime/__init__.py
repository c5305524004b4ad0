"""Services of the running application: start, garbage collection, logging, settings, language."""
