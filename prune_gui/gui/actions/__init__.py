"""The actions of the window: their table, menus and keys, the command palette."""
