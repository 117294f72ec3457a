"""The loop: ask, tell, explain, save. Where the rooms meet.

`loop` is the controller, `events` its journal (the truth), `config` its fixed part and `setup` how that comes about;
`roster` is what is in force once stations have come and gone, `joining` what a newcomer starts from; `asking` turns
questions into queries, `telling` rewards into entries, `state` keeps journal and beliefs as one, `explain` gives
reasons, `saving` is its folder on disk.
"""

from kinband.controller.config import Settings
from kinband.controller.explain import Explanation
from kinband.controller.loop import Controller

__all__ = ["Controller", "Explanation", "Settings"]
