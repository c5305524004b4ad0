"""The formats of `torch.save`, zip and legacy. No pickle is ever run."""
