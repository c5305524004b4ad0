"""What views of single elements share: tiles, a canvas that pans and zooms, and its bars."""
