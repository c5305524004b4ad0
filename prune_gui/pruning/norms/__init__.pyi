from .unit_norms import block_norms as block_norms
from .unit_norms import channel_norms as channel_norms
from .unit_norms import score_norms as score_norms
