"""Many jobs over a few processes, here or on a cluster.

`jobs` is what is run, and runs it in processes of this machine; `on_ray` runs it on a Ray cluster; `meter` tells how
far all jobs have come.
"""

from kinband.experiments.pool.jobs import Job, run_jobs

__all__ = ["Job", "run_jobs"]
