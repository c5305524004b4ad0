"""Figures for papers and slides: ready layouts, pictures of views, and their export."""
