"""What the views of bars share, Norms and Groups: their data, their plot, and a base class."""
