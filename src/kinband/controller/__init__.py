"""The loop: ask, tell, explain, save. Where the rooms meet.

`config` declares how a controller works, `setup` joins that with a network and its model (`making`: how that comes
about), and `controller` is the loop. `events` is its journal (the truth); `stations` and `memory` are what follows from
it: who is there, what runs, what is believed. `asking` turns questions into queries, `telling` rewards into entries;
`attribution` and `explain` give reasons, `storage` is its folder on disk.
"""

from kinband.controller.config import ControllerConfig
from kinband.controller.controller import Controller
from kinband.controller.explain import Explanation
from kinband.controller.setup import Setup

__all__ = ["Controller", "ControllerConfig", "Explanation", "Setup"]
