from . import dispatch as dispatch
from . import element_values as element_values
from . import unit_statistics as unit_statistics
