"""How far to trust the answers: audits of what a controller or a fleet has predicted, borrowed and earned.

`told` puts predictions beside rewards; `calibration` says whether intervals hold what they promise, `lending` who
borrows from whom, `transfer` what it earned, `audit` all of it at once and `words` in sentences. Why a single decision
was made, `Controller.explain` says. For operators: docs/reasons.md.
"""

from kinband.trust.audit import Account, Audit, account_of, audit, audit_of
from kinband.trust.calibration import Calibrated, Calibration
from kinband.trust.transfer import Transfer, Transferred

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
