"""Keras's weights in HDF5 files, alone or in a `.keras` archive: reading, writing in place."""
