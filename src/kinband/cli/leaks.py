"""What the library says of state columns that are the reward in other words, in the options of the command line."""

import re
import shlex

_LEAK = re.compile(r"(state column (?P<mark>['\"])(?P<name>.*)(?P=mark) is all but the reward .*) \(ignore\)")


def with_ignore(sentence: str) -> str:
    """Return a sentence of `kinband.trace.table` with the option that leaves the column out; any other as it is.

    Example:
        >>> with_ignore("state column 'thr mbps' is all but the reward (...): leave it out of the state (ignore) if")
        "state column 'thr mbps' is all but the reward (...): leave it out of the state (--ignore 'thr mbps') if"
        >>> with_ignore("the log has no time")
        'the log has no time'
    """
    return _LEAK.sub(lambda found: f"{found[1]} (--ignore {shlex.quote(found['name'])})", sentence, count=1)
