"""The msgpack files of flax.serialization: reading, writing in place."""
