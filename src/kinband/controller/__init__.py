"""The loop: ask, tell, explain, save. Where the rooms meet.

`loop` is the controller, `journal` its log (the truth) with its `entries`, `settings` its fixed part and `setup` how
that comes about; `roster` is what is in force once stations have come and gone, `joining` what a newcomer starts from;
`asking` turns questions into queries, `explanation` gives reasons, `saving` is its folder on disk.
"""

from kinband.controller.explanation import Explanation
from kinband.controller.loop import Controller
from kinband.controller.settings import Settings

__all__ = ["Controller", "Explanation", "Settings"]
