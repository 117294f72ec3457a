"""How far to trust the answers: audits of what a controller or a fleet has predicted, borrowed and earned.

`calibration` puts predictions beside rewards and says whether intervals hold what they promise, `transfer` who borrows
from whom and what it earned, `audit` all of it at once, in numbers and sentences. Why a single decision was made,
`Controller.explain` says. For operators: docs/learning.md.
"""

from kinband.diagnostics.audit import Account, Audit, account_of, audit, audit_of
from kinband.diagnostics.calibration import Calibrated, Calibration
from kinband.diagnostics.transfer import Transfer, Transferred

__all__ = [
    "Account",
    "Audit",
    "Calibrated",
    "Calibration",
    "Transfer",
    "Transferred",
    "account_of",
    "audit",
    "audit_of",
]
