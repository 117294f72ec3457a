"""Fleets: very many stations, split into shards that learn apart, in this process or on a Ray cluster.

The map of the room:

- `shards`: which stations learn together, and what is lost by parting the rest; `packing` is its arithmetic, `blocks`
  the coarse order of a country (regions, descriptors).
- `fleet`: `Fleet`, the words of a controller for all shards; `building` is how it comes about.
- `books`: the logs of all shards and how calls are recorded; `log` is that of one shard, which is the truth, `saving`
  the folder on disk, `ahead` the log written before a call returns.
- `engine`: where shards run, and running them here; `on_ray` on a cluster, which `cluster` joins; `calls` is what a
  shard can be asked to do.

"""

from kinband.fleet.blocks import DescriptorLikeness, coarse_blocks
from kinband.fleet.engine import Engine, FleetError, InProcess
from kinband.fleet.fleet import Fleet
from kinband.fleet.on_ray import OnRay
from kinband.fleet.shards import Shards, shard_blocks, shard_stations

__all__ = [
    "DescriptorLikeness",
    "Engine",
    "Fleet",
    "FleetError",
    "InProcess",
    "OnRay",
    "Shards",
    "coarse_blocks",
    "shard_blocks",
    "shard_stations",
]
