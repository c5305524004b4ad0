"""What a pruned model is worth: an evaluator for Prune GUI.

The window and `prune-gui evaluate` call the function `evaluate` below with the weights of a pruned
checkpoint. It returns a number, or several by name. The file is loaded once, so load the data
outside of the function. If your libraries are in another environment, choose its Python in
*Options*.
"""

import torch


def build_model():
    """Return your network, as it is before its weights are loaded."""
    # FILL IN: import the class of your network, and return one, for example
    #     from my_project.model import Net
    #     return Net()
    raise NotImplementedError("FILL IN build_model: return your network")


def batches(split):
    """Yield pairs of inputs and labels that the network was not trained with.

    The split is "search" while recipes are compared, and "final" for figures to report.
    """
    # FILL IN: yield your validation data, for example
    #     from my_project.data import validation_loader
    #     yield from validation_loader(batch_size=256)
    raise NotImplementedError("FILL IN batches: yield your validation data")


@torch.no_grad()
def evaluate(state_dict, split="final"):
    """Return the accuracy of a classifier. FILL IN another measure if yours is another network.

    A name that ends with loss, error or perplexity means that lower is better.
    """
    model = build_model()
    model.load_state_dict(state_dict)
    model.eval()
    right = total = 0
    for inputs, labels in batches(split):
        predicted = model(inputs).argmax(dim=1)
        right += int((predicted == labels).sum())
        total += len(labels)
    return {"accuracy": right / total}
