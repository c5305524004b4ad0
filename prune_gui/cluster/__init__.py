"""Running the tasks of long work on a Dask cluster."""
