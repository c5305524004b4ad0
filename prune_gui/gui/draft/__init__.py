"""The form of the draft step."""
