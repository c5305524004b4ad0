"""The GGUF format of llama.cpp and ggml: its header, reading, writing."""
