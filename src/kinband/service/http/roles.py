"""Which role every operation needs: the whole table, in one place.

Viewers look. Operators do what a shift does: ask, tell, approve, roll back, freeze, stop, and resume as well, since the
one who stopped in a hurry must be able to go on. Admins change how the network is run: modes, stations, rails. Open to
anybody is what has `None`: a probe has no token. An operation that is not in the table cannot be made (`routing`).
"""

from kinband.service.access.tokens import Role

VIEWER, OPERATOR, ADMIN = Role.VIEWER, Role.OPERATOR, Role.ADMIN

ROLES: dict[str, Role | None] = {
    "ask": OPERATOR,
    "list_decisions": VIEWER,
    "get_decision": VIEWER,
    "explain": VIEWER,
    "report_applied": OPERATOR,
    "call_off": OPERATOR,
    "tell": OPERATOR,
    "correct": OPERATOR,
    "approve": OPERATOR,
    "get_plan": VIEWER,
    "list_stations": VIEWER,
    "add_station": ADMIN,
    "get_station": VIEWER,
    "remove_station": ADMIN,
    "get_outlook": VIEWER,
    "get_history": VIEWER,
    "roll_back": OPERATOR,
    "freeze": OPERATOR,
    "thaw": OPERATOR,
    "get_mode": VIEWER,
    "set_mode": ADMIN,
    "stop": OPERATOR,
    "resume": OPERATOR,
    "list_configurations": VIEWER,
    "get_similarity": VIEWER,
    "list_events": VIEWER,
    "get_rails": VIEWER,
    "set_rails": ADMIN,
    "export_decisions": VIEWER,
    "export_events": VIEWER,
    "export_outcomes": VIEWER,
    "health": None,
    "ready": None,
    "metrics": VIEWER,
}
"""The least role by operation."""


def needs(operation: str) -> str:
    """Return in words what an operation needs.

    Example:
        >>> needs("tell"), needs("health")
        ('Needs the role operator.', 'Open to anybody.')
    """
    role = ROLES[operation]
    return "Open to anybody." if role is None else f"Needs the role {role}."
