"""The service's own provider of decisions: a file of rules, read again when it changes."""

from pathlib import Path

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.whole_file import read_whole
from delayed_tracker.service.security.actions import Action
from delayed_tracker.service.security.authorization import AuthorizationOptions
from delayed_tracker.service.security.file_watch import FileWatch
from delayed_tracker.service.security.principal import Principal
from delayed_tracker.service.security.rules import RULES_BYTES_MAX, Rules

_KEY = "authorizationRulesFilePath"


class RulesProvider:
    """Decisions by a file of rules. If a change breaks the file, the rules of before stay.

    Args:
        path: of the file; None grants nothing.

    Raises:
        InvalidInput: the file is unusable at the start.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._watch = FileWatch(() if path is None else (path,))
        self._rules = Rules(())
        self._version = 0
        self.refresh()

    @property
    def version(self) -> int:
        """The number of files that were read."""
        return self._version

    def allows(self, principal: Principal, action: Action, topic: str, subscription: str) -> bool:
        """Return True if a rule grants the action."""
        return self._rules.allow(principal.role, action, topic, subscription)

    def refresh(self) -> None:
        """Read the file again if it has changed.

        Raises:
            InvalidInput: it cannot be read, or is no file of rules; names the place.
        """
        if self._path is None or not self._watch.changed():
            return
        try:
            rules = Rules.parse(read_whole(self._path, RULES_BYTES_MAX))
        except OSError as error:
            raise InvalidInput(_KEY, str(self._path), f"{error.strerror or error}: name a readable file") from error
        except InvalidInput as error:
            raise InvalidInput(_KEY, str(self._path), error.message) from error
        self._rules = rules
        self._version += 1


def open_rules(options: AuthorizationOptions) -> RulesProvider:
    """Return the provider that ``authorizationProvider=rules`` names. Blocks."""
    return RulesProvider(options.rules_path)
