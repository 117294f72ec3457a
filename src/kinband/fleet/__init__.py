"""Fleets: very many stations, split into shards that learn apart, in this process or on a Ray cluster.

The map of the room:

- `shards`: which stations learn together, what is lost by parting the rest, and how a fleet comes about; `blocks` is
  the coarse order of a country (regions, descriptors).
- `fleet`: `Fleet`, the words of a controller for all shards, and the books of what was called.
- `engine`: where shards run, what they can be asked to do, and the log of each, which is the truth and is written
  before a call returns; `on_ray` runs them on a cluster, `saving` is the folder on disk.
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
