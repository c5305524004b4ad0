"""Compact forms of small models, their loader scripts, and layers that are skipped."""

import importlib.util
import json

from prune_gui import Recipe, export, open_checkpoint, resolve


def compacted(source, out, *steps):
    """Write the compact form of what some steps prune; return its config.json."""
    with open_checkpoint(source) as checkpoint:
        recipe = Recipe(steps=[{"targets": ["*"], **step} for step in steps])
        export(resolve(recipe, checkpoint), out, "compact")
    return json.loads((out / "config.json").read_text())


def script(folder):
    """Return the loader script in a folder as a module."""
    (path,) = folder.glob("load_*.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def passed_through(_, args, kwargs, output):
    """Return the input of a layer in place of its output."""
    hidden = args[0] if args else kwargs["hidden_states"]
    return (hidden, *output[1:]) if isinstance(output, tuple) else hidden
