"""The service's own provider of decisions: a file of rules, read again when it changes."""

from pathlib import Path
from typing import Final

from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.authorization import AuthorizationOptions
from delayed_tracker.service.security.principal import Principal
from delayed_tracker.service.security.rules import RULES_BYTES_MAX, Rules
from delayed_tracker.service.security.watched_file import WatchedFile

_KEY: Final = "authorizationRulesFilePath"
_NONE: Final = Rules(())


class RulesProvider:
    """Decisions by a file of rules. If a change breaks the file, the rules of before stay.

    Args:
        path: of the file; None grants nothing.

    Raises:
        InvalidInput: the file is unusable at the start.
    """

    def __init__(self, path: Path | None) -> None:
        self._file = None if path is None else WatchedFile(_KEY, path, bytes_max=RULES_BYTES_MAX, parse=Rules.parse)

    @property
    def version(self) -> int:
        """The number of files that were read."""
        return 0 if self._file is None else self._file.version

    def allows(self, principal: Principal, action: Action, topic: str, subscription: str) -> bool:
        """Return True if a rule grants the action."""
        rules = _NONE if self._file is None else self._file.value
        return rules.allow(principal.role, action, topic, subscription)

    def refresh(self) -> None:
        """Read the file again if it has changed.

        Raises:
            InvalidInput: it cannot be read, or is no file of rules; names the place.
        """
        if self._file is not None:
            self._file.refresh()


def open_rules(options: AuthorizationOptions) -> RulesProvider:
    """Return the provider that ``authorizationProvider=rules`` names. Blocks."""
    return RulesProvider(options.rules_path)
