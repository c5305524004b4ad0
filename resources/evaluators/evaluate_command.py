"""An evaluator for Prune GUI: the command `python evaluate_command.py {checkpoint}`.

The command is started once for each pruned checkpoint, with the path of its file in place of
{checkpoint}. It prints a number, or a JSON object of numbers by name. Any program will do, in any
language; {folder} is the folder of the file, for programs such as lm_eval.
"""

import json
import sys


def measure(path):
    """Return numbers by name for the checkpoint at a path."""
    # FILL IN: load the checkpoint, and measure it, for example
    #     from safetensors.torch import load_file
    #     weights = load_file(path)
    #     return {"accuracy": accuracy_of(weights)}
    sys.exit("FILL IN measure: return a number, such as the accuracy")


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1])))
