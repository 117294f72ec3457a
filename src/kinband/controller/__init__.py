"""The loop: ask, tell, explain, save. Where the rooms meet.

`loop` is the controller, `journal` its log (the truth) with its `entries`, `settings` its fixed part and `setup` how
that comes about; `roster` is what is in force once stations have come and gone, `joining` what a newcomer starts from;
`asking` turns questions into queries, `explanation` gives reasons, `saving` is its folder on disk.
"""

from kinband.controller.config import Settings
from kinband.controller.explain import Explanation
from kinband.controller.loop import Controller

__all__ = ["Controller", "Explanation", "Settings"]
