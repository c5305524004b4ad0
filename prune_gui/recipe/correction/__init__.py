"""Correcting the kept weights of a pruned network with a recording of its layers' inputs."""
