"""What a running service takes over when its settings are read again (SIGHUP).

Keys declared ``reloadable`` take effect at once, all of them or, if they do not fit together, none. Any other key that
has changed keeps its old value until the next start, and is named.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from delayed_tracker.core.values.errors import DelayedTrackerError
from delayed_tracker.service.settings.settings import Settings, setting_fields

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(frozen=True, slots=True)
class Reload:
    """The outcome of reading the settings again."""

    settings: Settings
    """Those in force from now on."""
    changed: tuple[str, ...]
    """Keys that have another value than before."""
    ignored: tuple[str, ...]
    """Keys that were changed and need a restart."""

    @classmethod
    def of(cls, current: Settings, wanted: Settings) -> "Reload":
        """Choose what takes effect.

        Raises:
            InvalidInput: the new values do not fit together with those that stay.
        """
        differing = {
            key: (field, declared)
            for key, (field, declared) in setting_fields().items()
            if getattr(current, field) != getattr(wanted, field)
        }
        changes = {field: getattr(wanted, field) for field, declared in differing.values() if declared.reloadable}
        return cls(
            dataclasses.replace(current, **changes),
            changed=tuple(key for key, (_, declared) in differing.items() if declared.reloadable),
            ignored=tuple(key for key, (_, declared) in differing.items() if not declared.reloadable),
        )


class Reloader:
    """Reads the settings again whenever it is asked to, one time after another, until it is cancelled.

    Args:
        read: reads them from where they came from, in a thread; None: they came from no place that can change.
        current: returns those in force.
        apply: puts others in force.
    """

    def __init__(
        self,
        read: Callable[[], Settings] | None,
        *,
        current: Callable[[], Settings],
        apply: Callable[[Settings], None],
    ) -> None:
        self._read = read
        self._current = current
        self._apply = apply
        self._asked = asyncio.Event()

    def ask(self) -> None:
        """Have the settings read; what is asked while they are being read is done once more."""
        self._asked.set()

    async def run(self) -> None:
        """Work until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            await self._reload()

    async def _reload(self) -> None:
        if self._read is None:
            _log.info("SIGHUP ignored: this service was started without a place to read settings from")
            return
        try:
            reload = Reload.of(self._current(), await asyncio.to_thread(self._read))
        except DelayedTrackerError as error:
            _log.warning("settings not reloaded, the old ones stay", problem=error.message.replace("\n", "; "))
            return
        self._apply(reload.settings)
        _log.info("settings reloaded", changed=list(reload.changed), need_restart=list(reload.ignored))
