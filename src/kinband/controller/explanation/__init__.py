"""Why a decision was made, in words and as data.

`explaining` puts it together; `evidence` says whose rewards an estimate rests on and what they are worth, `comparison`
why not the runner-up, `hindsight` what was believed at any time of the past, `words` turns numbers into sentences.
"""

from kinband.controller.explanation.comparison import Comparison
from kinband.controller.explanation.evidence import Evidence
from kinband.controller.explanation.explaining import MOST_ROWS, Explanation, explain
from kinband.controller.explanation.hindsight import Hindsight, Part, told_rows_of
from kinband.controller.explanation.words import configuration_text

__all__ = [
    "MOST_ROWS",
    "Comparison",
    "Evidence",
    "Explanation",
    "Hindsight",
    "Part",
    "configuration_text",
    "explain",
    "told_rows_of",
]
