"""How a message goes out: by HTTP or by SMTP, each with an end to waiting."""

import smtplib
import ssl
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime

import httpx

from kinband.errors import KinbandError
from kinband.service.notify.notices import Message
from kinband.service.notify.settings import Email, Target, Webhook
from kinband.service.notify.signing import signed
from kinband.version import __version__

_AFTER = 3600.0  # seconds that a target may ask to be left alone
_LATER = (401, 403, 404, 405, 408, 409, 425, 429)  # refusals that may end: somebody mends the target or its token


class NotTakenError(KinbandError):
    """A message that was not taken.

    Attributes:
        refused: Whether this very message was refused, so that to send it again is of no use.
        after: Seconds after which the target wants to be asked again; 0 where it said nothing.
    """

    code = "not_taken"

    def __init__(self, why: str, *, refused: bool = False, after: float = 0.0) -> None:
        super().__init__(why)
        self.refused, self.after = refused, after


def send(message: Message, target: Target, *, now: datetime) -> None:
    """Send a message, or raise `NotTakenError`; nothing is waited for longer than the target's time."""
    if isinstance(target.way, Webhook):
        _post(message, target.way, now=now, timeout=target.timeout)
    else:
        _mail(message, target.way, now=now, timeout=target.timeout)


def _post(message: Message, way: Webhook, *, now: datetime, timeout: float) -> None:
    headers = signed(message.body, secret=way.secret.text, name=message.id, at=now)
    headers |= {"Content-Type": "application/json", "User-Agent": f"kinband/{__version__}"}
    try:
        with (
            httpx.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", way.url, content=message.body, headers=headers) as answer,
        ):
            status, after = answer.status_code, answer.headers.get("retry-after", "")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        why = "no answer" if isinstance(error, httpx.TimeoutException) else _words(error)
        raise NotTakenError(f"{way.place}: {why}") from None  # what is raised may quote the address
    if not 200 <= status < 300:
        seconds = min(float(after), _AFTER) if after.isdigit() else 0.0
        raise NotTakenError(f"{way.place} answered {status}", refused=400 <= status < 500 and status not in _LATER,
                     after=seconds)  # fmt: skip


def _mail(message: Message, way: Email, *, now: datetime, timeout: float) -> None:
    try:
        server = _connected(way, timeout)
        try:
            if way.tls == "starttls":
                server.starttls(context=ssl.create_default_context())
            if way.password is not None:
                server.login(way.user, way.password.text)
            server.send_message(_mail_of(message, way, now=now))
            with suppress(smtplib.SMTPException, OSError):  # it has the message
                server.quit()
        finally:
            server.close()
    except smtplib.SMTPAuthenticationError as error:
        raise NotTakenError(f"{way.server} refused user and password ({error.smtp_code})") from None
    except smtplib.SMTPRecipientsRefused as error:
        codes = {code for code, _ in error.recipients.values()}
        raise NotTakenError(f"{way.server} refused every address ({', '.join(map(str, sorted(codes)))})") from None
    except smtplib.SMTPDataError as error:
        raise NotTakenError(
            f"{way.server} refused the message ({error.smtp_code})", refused=error.smtp_code >= 500
        ) from None
    except smtplib.SMTPResponseException as error:
        raise NotTakenError(f"{way.server} answered {error.smtp_code}") from None
    except (smtplib.SMTPException, OSError) as error:
        raise NotTakenError(f"{way.server}:{way.port}: {_words(error)}") from None


def _connected(way: Email, timeout: float) -> smtplib.SMTP:
    if way.tls == "tls":
        return smtplib.SMTP_SSL(way.server, way.port, timeout=timeout, context=ssl.create_default_context())
    return smtplib.SMTP(way.server, way.port, timeout=timeout)


def _mail_of(message: Message, way: Email, *, now: datetime) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"] = f"kinband: {''.join(map(_printable, message.subject))[:200]}"
    mail["From"], mail["To"] = way.sender, ", ".join(way.to)
    mail["Date"] = format_datetime(now)
    mail["Message-ID"] = f"<{message.id}@{way.sender.partition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(message.text)
    return mail


def _printable(letter: str) -> str:
    return letter if letter.isprintable() else " "


def _words(error: Exception) -> str:
    """Return what kind of failure it was, without what a library may have put into its text."""
    cause = error.__cause__ or error.__context__ or error
    if isinstance(cause, TimeoutError):
        return "no answer"
    known = getattr(cause, "strerror", None) or getattr(cause, "reason", None)
    return str(known or type(error).__name__).lower()
