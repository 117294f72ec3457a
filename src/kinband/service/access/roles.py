"""Who somebody is, and what that allows.

Three roles, each of which may do what the ones before it may: a *viewer* looks, an *operator* runs the network with it,
an *admin* changes how it is run. A rule names the least role that it needs, nothing more; there are no exceptions by
person, so that the table in docs/access.md is the whole truth.
"""

from dataclasses import dataclass
from enum import StrEnum

from kinband.errors import BadInputError
from kinband.service.access.errors import NotAllowedError

LOCAL = "local"
"""The name of whoever sits at the machine of a service without access control; no token may have it."""


class Role(StrEnum):
    """What somebody may do; roles are ordered.

    Example:
        >>> Role.VIEWER < Role.OPERATOR < Role.ADMIN
        True
        >>> Role.of("operator").value
        'operator'
        >>> Role.of("root")
        Traceback (most recent call last):
            ...
        kinband.errors.BadInputError: a role is one of viewer, operator, admin, got 'root'
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @classmethod
    def of(cls, name: "str | Role") -> "Role":
        """Return the role of a name."""
        try:
            return cls(name)
        except ValueError as error:
            known = ", ".join(cls)
            raise BadInputError(f"a role is one of {known}, got {name!r:.40}") from error

    @property
    def rank(self) -> int:
        """0 for the least; text would be ordered by the alphabet."""
        return list(Role).index(self)

    def __lt__(self, other: str) -> bool:
        return self.rank < Role(other).rank

    def __le__(self, other: str) -> bool:
        return self.rank <= Role(other).rank

    def __gt__(self, other: str) -> bool:
        return self.rank > Role(other).rank

    def __ge__(self, other: str) -> bool:
        return self.rank >= Role(other).rank


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is calling.

    Attributes:
        id: The id of the token; empty where there is none.
        name: The name of the token, which goes on record as the actor: live tokens have different names.
        role: What it allows.

    Example:
        >>> anna = Identity("k3Vq90Xz", "anna", Role.OPERATOR)
        >>> anna.may(Role.VIEWER), anna.may(Role.ADMIN)
        (True, False)
        >>> anna.require(Role.ADMIN)
        Traceback (most recent call last):
            ...
        kinband.service.access.errors.NotAllowedError: this needs the role admin, and 'anna' is operator: ...
    """

    id: str
    name: str
    role: Role

    @classmethod
    def local(cls) -> "Identity":
        """Return who sits at the machine of a service that was started without access control.

        Example:
            >>> Identity.local().role.value
            'admin'
        """
        return cls("", LOCAL, Role.ADMIN)

    def may(self, role: Role) -> bool:
        """Return whether the caller may do what this role may."""
        return self.role >= role

    def require(self, role: Role) -> None:
        """Refuse a caller who may not do what this role may."""
        if not self.may(role):
            raise NotAllowedError(
                f"this needs the role {role}, and {self.name!r} is {self.role}: ask somebody who has it, or for a "
                "token with that role"
            )
