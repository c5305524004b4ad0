from . import dispatch as dispatch
from . import element_values as element_values
