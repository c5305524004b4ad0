from .dask_executor import Client as Client
from .dask_executor import DaskExecutor as DaskExecutor
from .dask_executor import check_address as check_address
from .dask_executor import check_installed as check_installed
from .dask_executor import count_workers as count_workers
from .dask_executor import open_cluster as open_cluster
from .dask_executor import use_cluster as use_cluster
