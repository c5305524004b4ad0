"""Writing that every checkpoint format needs: atomic and verified."""
