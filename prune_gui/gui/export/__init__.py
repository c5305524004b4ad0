"""Export of pictures and tables, to a file or to the clipboard."""
