"""The actions of the window: their table, menus, keys and the command palette."""
