"""One node: a NETCONF session (RFC 6241) that reads, edits the candidate, commits for a while, confirms and cancels.

Every refusal and every silence becomes a sentence that begins with the node's name.
"""

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kinband.counters.writing import Path
from kinband.errors import BadInputError, KinbandError

BASE = "urn:ietf:params:xml:ns:netconf:base:1.0"
_CAPABILITY = "urn:ietf:params:netconf:capability:"
_PORT = 830
_ADDRESS = re.compile(r"(\[[^\[\]]+\]|[^:\[\]\s]+)(?::(\d{1,5}))?")
T = TypeVar("T")


class NodeError(KinbandError):
    """A node refused, or could not be reached.

    Attributes:
        later: Whether the same may well work later, since nothing of the change itself was refused.

    Example:
        >>> str(NodeError("enb7:830", "does not answer", hint="check whether it is up"))
        'enb7:830 does not answer: check whether it is up'
    """

    code = "node"

    def __init__(self, node: str, problem: str, *, hint: str = "", later: bool = False) -> None:
        super().__init__(f"{node} {problem}", hint=hint, argument=node)
        self.later = later


@dataclass(frozen=True)
class Access:
    """How to come in.

    Attributes:
        user: Name of the user; empty for that of the SSH configuration, or one's own.
        ssh_config: An OpenSSH client configuration: keys, known hosts, a proxy; empty for none.
        password: Of the user or of the key; None where an agent or a key without one is used.
        timeout: Seconds to wait for an answer.

    Example:
        >>> Access(user="kinband", password="secret")
        Access(user='kinband', ssh_config='', timeout=30.0)
    """

    user: str = ""
    ssh_config: str = ""
    password: str | None = field(default=None, repr=False)
    timeout: float = 30.0


def address_of(name: str) -> tuple[str, int]:
    """Return host and port of a node.

    Example:
        >>> address_of("enb7"), address_of("enb7:8300"), address_of("[::1]:830")
        (('enb7', 830), ('enb7', 8300), ('::1', 830))
    """
    found = _ADDRESS.fullmatch(name)
    port = int(found[2] or _PORT) if found else 0
    if found is None or not 0 < port < 65_536:
        raise BadInputError(f"a node is HOST:PORT, such as enb7:830, got {name!r:.60}")
    return found[1].strip("[]"), port


class Node:
    """A session with a node.

    Args:
        name: HOST:PORT.
        access: How to come in.
    """

    def __init__(self, name: str, access: Access) -> None:
        self.name = name
        self._session = _connected(name, access)
        self._locked = False
        offered = list(self._session.server_capabilities)
        self._offers = {cap.removeprefix(_CAPABILITY) for cap in offered if cap.startswith(_CAPABILITY)}

    def check(self) -> None:
        """Refuse a node that cannot undo a change by itself."""
        for capability, what in (
            ("candidate:1.0", "has no candidate configuration"),
            ("confirmed-commit:1.1", "knows no confirmed commit with an id (confirmed-commit:1.1)"),
        ):
            if capability not in self._offers:
                raise NodeError(
                    self.name, f"{what}, so that it could not undo a change by itself",
                    hint="write files for its manager with --bulk-cm",
                )  # fmt: skip

    def read(self, paths: Iterable[Path], source: str = "running") -> dict[Path, str | None]:
        """Return what values are; None where there is none."""
        wanted = list(paths)
        chosen = _tree("filter", dict.fromkeys(wanted, ""))
        answer = self._ask(lambda session: session.get_config(source, filter=chosen), "read its configuration")
        return {path: _value(answer.data_ele, path) for path in wanted}

    def lock(self) -> None:
        """Keep others from the candidate until `leave`; one with edits of somebody else cannot be locked."""
        self._ask(
            lambda session: session.lock("candidate"), "lock its candidate",
            hint="somebody edits it, or a change waits to be confirmed: try again when they are done", later=True,
        )  # fmt: skip
        self._locked = True

    def edit(self, values: Mapping[Path, str]) -> None:
        """Put values into the candidate; an object that is not there is an error, with `merge` a node would make it."""
        option = "rollback-on-error" if "rollback-on-error:1.0" in self._offers else "stop-on-error"
        config = _tree("config", values, operation="replace")
        self._ask(
            lambda session: session.edit_config(
                config, target="candidate", default_operation="none", error_option=option
            ),
            "accept the change",
        )

    def commit(self, seconds: int, persist: str) -> None:
        """Have the candidate run for some seconds, or for good if it is confirmed meanwhile.

        `validate` is not asked for: a commit validates, and after it a server was seen to answer ok to the commit and
        to change nothing.
        """
        what = "commit the change"
        self._ask(lambda session: session.commit(confirmed=True, timeout=str(seconds), persist=persist), what)

    def leave(self, *, discard: bool) -> None:
        """Give the candidate back; what is in it is thrown away if that is asked for."""
        if not self._locked:
            return
        self._locked = False
        if discard:
            self._ask(lambda session: session.discard_changes(), "discard its candidate")
        self._ask(lambda session: session.unlock("candidate"), "unlock its candidate")

    def check_candidate(self, paths: Iterable[Path]) -> None:
        """Refuse a candidate with edits of somebody else: a confirmation would commit them too."""
        top = {path[:1]: "" for path in paths}
        if self._below(top, "candidate") != self._below(top, "running"):
            raise NodeError(
                self.name,
                "has edits of somebody else in its candidate, which a confirmation would commit too",
                hint="have them discarded, then confirm again",
                later=True,
            )

    def _below(self, top: Mapping[Path, str], source: str) -> bytes:
        chosen = _tree("filter", top)
        answer = self._ask(lambda session: session.get_config(source, filter=chosen), "read its configuration")
        return _canonical(answer.data_ele)

    def confirm(self, persist: str) -> None:
        """Have a commit stay."""
        self._ask(lambda session: session.commit(persist_id=persist), "confirm the change")

    def save(self) -> None:
        """Have what runs survive a restart, where the node does not see to that itself."""
        if "startup:1.0" in self._offers:
            self._ask(lambda session: session.copy_config("running", "startup"), "save what runs for its next start")

    def cancel(self, persist: str) -> None:
        """Have a commit undone."""
        self._ask(lambda session: session.cancel_commit(persist_id=persist), "cancel the change")

    def close(self) -> None:
        """End the session, whatever its state."""
        try:
            self._session.close_session()
        except Exception as error:  # a session that is gone is closed
            logging.getLogger("kinband.deploy").debug("closing %s: %s", self.name, error)

    def _ask(self, call: Callable[[Any], T], what: str, *, hint: str = "", later: bool = False) -> T:
        from ncclient import NCClientError
        from ncclient.operations import RPCError, TimeoutExpiredError

        try:
            return call(self._session)
        except RPCError as error:
            raise NodeError(self.name, f"did not {what} ({_refusal(error)})", hint=hint, later=later) from error
        except TimeoutExpiredError as error:
            raise NodeError(self.name, f"did not {what} in time", hint="look at what it runs", later=True) from error
        except (NCClientError, OSError) as error:
            hint = "look at whether it is up"
            raise NodeError(self.name, f"is gone and did not {what}", hint=hint, later=True) from error


def _refusal(error: Any) -> str:
    """Return what a node says of its refusal, and about which value."""
    said = " ".join(str(error.message or error.tag or "no reason given").split())
    path = " ".join(str(getattr(error, "path", None) or "").split())
    return f"{said}, at {path.partition('/nc:config')[2] or path}" if path.count("/") > 3 else said


# --- Coming in ------------------------------------------------------------------------------------------------------


def _connected(name: str, access: Access) -> Any:
    """Return a session; a host whose key is not known is refused before anything secret is sent."""
    manager, errors = _ncclient()
    host, port = address_of(name)
    try:
        session = manager.connect(
            host=host, port=port, username=access.user or None, password=access.password,
            ssh_config=access.ssh_config or None, hostkey_verify=True, timeout=access.timeout,
        )  # fmt: skip
    except errors.SSHUnknownHostError as error:
        raise NodeError(
            name, f"has a host key that is not known, or another than is known (MD5 {error.fingerprint})",
            hint=f"check it with whoever runs the node, then ssh-keyscan -p {port} {host} >> ~/.ssh/known_hosts",
            later=True,
        ) from error  # fmt: skip
    except errors.AuthenticationError as error:
        raise NodeError(
            name, "does not let us in", hint="check --user, the key in the agent or in --ssh-config, or --ask-password",
            later=True,
        ) from error  # fmt: skip
    except FileNotFoundError as error:
        raise BadInputError(f"{error.filename} cannot be read: check --ssh-config and the files it names") from error
    except (errors.NCClientError, OSError, EOFError) as error:
        why, hint = str(error) or type(error).__name__, "check its address and whether it is up"
        raise NodeError(name, f"cannot be reached ({why})", hint=hint, later=True) from error
    session.timeout = access.timeout
    return session


def _ncclient() -> tuple[Any, Any]:
    try:
        from ncclient import manager
        from ncclient.transport import errors
    except ImportError as error:
        raise BadInputError("ncclient is not installed: pip install 'kinband[netconf]'", code="no_ncclient") from error
    for name in ("ncclient", "paramiko"):  # which print on standard error what is told in a sentence anyway
        logging.getLogger(name).addHandler(logging.NullHandler())
    return manager, errors


# --- Trees of XML ---------------------------------------------------------------------------------------------------


def _tree(root: str, values: Mapping[Path, str], *, operation: str = "") -> Any:
    """Return an element with values below it; elements that several paths share are there once."""
    from lxml import etree

    made = etree.Element(f"{{{BASE}}}{root}", nsmap={None: BASE, "nc": BASE})
    if root == "filter":
        made.set("type", "subtree")
    known: dict[Path, Any] = {(): made}
    for path, value in values.items():
        for depth in range(1, len(path) + 1):
            if path[:depth] in known:
                continue
            name, keys = path[depth - 1]
            space = name[1:].partition("}")[0]
            element = etree.SubElement(known[path[: depth - 1]], name, nsmap={None: space, "nc": BASE})
            for key, text in keys:
                etree.SubElement(element, key).text = text
            known[path[:depth]] = element
        if value:
            known[path].text = value
        if operation:
            known[path].set(f"{{{BASE}}}operation", operation)
    return made


def _value(data: Any, path: Path) -> str | None:
    """Return the text at a path, None where there is nothing."""
    for name, keys in path:
        fitting = (child for child in data.iterchildren(name) if all(_text(child, key) == text for key, text in keys))
        data = next(fitting, None)
        if data is None:
            return None
    return (data.text or "").strip()


def _text(element: Any, key: str) -> str | None:
    found = element.find(key)
    return None if found is None else (found.text or "").strip()


def _canonical(data: Any) -> bytes:
    from lxml import etree

    return b"".join(etree.tostring(child, method="c14n", exclusive=True) for child in data)
