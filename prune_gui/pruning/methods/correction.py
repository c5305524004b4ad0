"""Methods that prune nothing: they correct the weights that all steps of the recipe keep."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from prune_gui.language import deferred
from prune_gui.pruning.methods.base import Method
from prune_gui.pruning.methods.fields import FieldText, FileName, FilePath, file_name, path_field


class CorrectionMethod(Method):
    """A method that changes kept weights with a file of `prune_gui.record`.

    Masks are decided on the weights of the file. Corrections follow from the masks of all enabled
    steps, also of those after them; `prune_gui.recipe.correction` computes them on demand.
    """

    method_group = "correction"
    corrects = True
    statistic: ClassVar[str]
    """The recorded statistic that the method needs."""

    @property
    def recording(self) -> FilePath:
        """The file of the statistic."""
        [path] = self.files.values()
        return path


class Refit(CorrectionMethod):
    """Correct the kept weights, so that outputs approach those before pruning.

    Each output row of a linear or convolutional layer is solved for the recorded inputs of the
    layer: w_S = H_SS^-1 H_S: w, where S are the kept columns and H is the second moment matrix of
    the inputs, with damping on its diagonal. It is exact for the masks of the whole stack,
    whichever step decides them. Pruned weights stay zero. Save as finalized or compact form.

    The recording is `prune_gui.record(model, "second_moments")` of the dense model. Formula and
    sources are in `prune_gui.recipe.correction.least_squares`.
    """

    name = "refit"
    title = deferred("Refit")
    statistic = "second_moments"

    moments: Annotated[
        FileName,
        path_field(
            deferred(
                'The file second_moments.safetensors of prune_gui.record(model, "second_moments").'
            )
        ),
        FieldText(label=deferred("Moments"), position=0, show=lambda _, path: file_name(path)),
    ]
    damping: Annotated[
        float,
        Field(
            ge=0.0,
            allow_inf_nan=False,
            description=deferred(
                "Added to the diagonal of the moments, as a share of its mean; larger values keep "
                "weights closer to those of the file."
            ),
        ),
        FieldText(label=deferred("Damping"), folded=True, show=deferred("damping {value:g}")),
    ] = 0.01


class BiasCorrection(CorrectionMethod):
    """Correct biases, so that the mean output of each layer is that before pruning.

    The change of the weight times the mean input of the layer is subtracted from its bias. Target
    the weights; layers without a bias in the file stay as they are. A refit that precedes this step
    counts as part of the change. Save as finalized or compact form.

    b' = b + (W - W') mean(x), with the dense weight W and the pruned weight W'; the recording is
    `prune_gui.record(model, "means")` of the dense model (Nagel et al., "Data-Free Quantization
    Through Weight Equalization and Bias Correction", 2019, equation 17).
    """

    name = "bias_correction"
    title = deferred("Bias correction")
    statistic = "means"

    means: Annotated[
        FileName,
        path_field(deferred('The file means.safetensors of prune_gui.record(model, "means").')),
        FieldText(label=deferred("Means"), position=0, show=lambda _, path: file_name(path)),
    ]


class BatchNormStatistics(CorrectionMethod):
    """Replace the statistics of batch norms by those of the pruned model.

    The statistics are recorded while the pruned model runs, which shifts and scales its
    activations. Target the running means and variances. Save as finalized or compact form.

    The recording is `prune_gui.record(pruned_model, "batch_norm")`; its values are those of
    `torch.optim.swa_utils.update_bn`, if the model is in training mode.
    """

    name = "batch_norm_statistics"
    title = deferred("Batch norm statistics")
    takes_every_kind = True
    statistic = "batch_norm"

    statistics: Annotated[
        FileName,
        path_field(
            deferred(
                'The file batch_norm.safetensors of prune_gui.record(pruned_model, "batch_norm").'
            )
        ),
        FieldText(label=deferred("Statistics"), position=0, show=lambda _, path: file_name(path)),
    ]
