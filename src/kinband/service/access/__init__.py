"""Access: who may come in, and what they may do.

`tokens` are what one comes with, and their roles what they allow; `sessions` are what the dashboard keeps of a token,
and what tells our own pages from those of others. `provider` and `oidc` let people in whom an identity provider vouches
for. `middleware` bounds how often one may ask and how much one may send, and adds the headers that browsers need;
`redaction` keeps secrets out of logs.
"""

from kinband.service.access.middleware import Limiter
from kinband.service.access.sessions import Session, Sessions
from kinband.service.access.tokens import (
    AccessError,
    Created,
    Identity,
    NotAllowedError,
    NotSignedInError,
    Role,
    TokenRecord,
    Tokens,
)

__all__ = [
    "AccessError",
    "Created",
    "Identity",
    "Limiter",
    "NotAllowedError",
    "NotSignedInError",
    "Role",
    "Session",
    "Sessions",
    "TokenRecord",
    "Tokens",
]
