"""What stands around the views: the tree of modules, the form of the draft step, the stack."""
