"""The safetensors format: its header, reading, writing."""
