from . import cell_grid as cell_grid
from . import cell_statistics as cell_statistics
from . import density as density
from . import group_patterns as group_patterns
