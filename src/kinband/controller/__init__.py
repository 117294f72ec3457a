"""The loop: ask, tell, explain, save. Where the rooms meet.

`loop` is the controller, `journal` its log (the truth), `settings` its fixed part, `setup` how that comes about,
`explanation` its reasons and `saving` its folder on disk.
"""

from kinband.controller.explanation import Explanation
from kinband.controller.loop import Controller
from kinband.controller.settings import Settings

__all__ = ["Controller", "Explanation", "Settings"]
