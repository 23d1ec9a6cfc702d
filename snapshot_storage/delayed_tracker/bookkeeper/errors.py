"""Errors of the BookKeeper client, one class for each reaction of the caller."""

from delayed_tracker.core.values.errors import DelayedTrackerError


class BookKeeperError(DelayedTrackerError):
    """Base class of all errors of the BookKeeper client."""

    reason = "BOOKKEEPER_ERROR"


class BookieUnavailable(BookKeeperError):
    """The bookie cannot be reached, or its connection ended. What was sent may have been done. Ask another bookie."""

    reason = "BOOKIE_UNAVAILABLE"

    def __init__(self, bookie: str, problem: str) -> None:
        super().__init__(f"bookie {bookie}: {problem}", metadata={"bookie": bookie})
        self.bookie = bookie
        self.problem = problem


class RequestTimedOut(BookieUnavailable):
    """The bookie did not answer in time. What was sent may have been done, or may still be. Ask another bookie."""

    reason = "BOOKIE_TIMED_OUT"


class BookieReplyInvalid(BookieUnavailable):
    """The bookie sent what is no reply to a request; its connection was ended. Look at its log, or at its address."""

    reason = "BOOKIE_REPLY_INVALID"


class TlsRefused(BookieUnavailable):
    """The bookie does not offer TLS. Set it up there, or connect without."""

    reason = "BOOKIE_TLS_REFUSED"


class AuthenticationDemanded(BookieUnavailable):
    """The bookie demands authentication (SASL), which this client does not speak. Use mutual TLS, or another bookie."""

    reason = "BOOKIE_AUTHENTICATION_DEMANDED"


class TooManyInFlight(BookKeeperError):
    """The bound on unanswered requests or bytes of a bookie, or of a writer, is reached; nothing was sent. Wait for replies."""

    reason = "BOOKIE_TOO_MANY_IN_FLIGHT"


class EntryTooLarge(BookKeeperError):
    """The request has more bytes than a bookie takes; nothing was sent. Cut the payload."""

    reason = "BOOKKEEPER_ENTRY_TOO_LARGE"


class NotEnoughBookies(BookKeeperError):
    """There are fewer writable bookies than the ledger needs. Start some, or ask for smaller quorums."""

    reason = "BOOKKEEPER_NOT_ENOUGH_BOOKIES"


class LedgerFenced(BookKeeperError):
    """Another client recovers or has closed the ledger: this writer can never add to it again. Open it to see its end."""

    reason = "BOOKKEEPER_LEDGER_FENCED"


class LedgerClosed(BookKeeperError):
    """The writer was closed. Create another ledger."""

    reason = "BOOKKEEPER_LEDGER_CLOSED"


class Unauthorized(BookKeeperError):
    """A bookie refuses the ledger's password, or failed at the add. Give the password that the ledger was created with."""

    reason = "BOOKKEEPER_UNAUTHORIZED"


class DigestMismatch(BookKeeperError):
    """The stored entry is damaged, is another one, or was written with another password. A reader has asked all replicas.

    Restore the ledger from a copy.
    """

    reason = "BOOKKEEPER_DIGEST_MISMATCH"


class EntryMissing(BookKeeperError):
    """All bookies of a confirmed entry answered, and none has it: it is lost. Restore the ledger from a copy."""

    reason = "BOOKKEEPER_ENTRY_MISSING"


class LedgerUnreadable(BookKeeperError):
    """Too few bookies answer as they should: what is asked for may exist. Try again when they are back."""

    reason = "BOOKKEEPER_LEDGER_UNREADABLE"


class NotOurs(BookKeeperError):
    """The ledger does not have the custom metadata that the caller requires; nothing was read or changed. Give another id."""

    reason = "BOOKKEEPER_NOT_OURS"


class ClientClosed(BookKeeperError):
    """The client was closed. Make another one."""

    reason = "BOOKKEEPER_CLIENT_CLOSED"
