"""The compact form: a checkpoint without the units that are pruned in all of their members."""
