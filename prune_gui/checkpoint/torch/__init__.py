"""The formats of `torch.save`, zip and legacy. Pickles are parsed, never executed."""
