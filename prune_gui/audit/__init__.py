"""What the views show, without a window: numbers, texts and pictures."""
