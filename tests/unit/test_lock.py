"""The file of hashes that operators install from."""

import re

from tools.lock import LOCK, needed, pinned


def test_the_lock_has_all_that_the_service_needs_in_the_versions_of_development_with_hashes() -> None:
    text = LOCK.read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([a-z0-9-]+)==(\S+) \\\n    --hash=sha256:[0-9a-f]{64}", text, re.MULTILINE))
    assert set(needed()) <= set(locked), "write it anew: make lock"  # a newer Python needs less
    assert locked == {name: pinned()[name] for name in locked}, "write it anew: make lock"
