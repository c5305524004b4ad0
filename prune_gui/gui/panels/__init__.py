"""The panels around the views: module tree, form of the draft step, stack, log and others."""
