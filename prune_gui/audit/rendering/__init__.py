"""Pictures of parameters and masks as numpy pixels, computed on the engine's thread."""
