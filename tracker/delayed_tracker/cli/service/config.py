"""Command ``delayed-tracker config``: prints every setting with its value and the origin of the value."""

import os
from collections.abc import Collection

from delayed_tracker.cli.terminal.options import AsJson, BrokerConf, Config, Set
from delayed_tracker.cli.terminal.output import counted, notice, print_json, show, table
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.settings.keys import Group
from delayed_tracker.service.settings.load import LoadedSettings, load_settings
from delayed_tracker.service.settings.settings import Settings


def config(path: Config = None, broker_conf: BrokerConf = None, overrides: Set = None, as_json: AsJson = False) -> None:
    """Print every setting with its origin, and check all names, types, ranges, and the forms of URLs.

    Files, places and addresses are looked at when the service starts.

    Example: delayed-tracker config --config conf/tracker.conf --set delayedDeliveryTickTimeMillis=500
    """
    # The help needs no backends.
    from delayed_tracker.service.process.backends import require_urls  # noqa: PLC0415

    loaded = settings_from(path, overrides, broker_conf)
    require_urls(loaded.settings)
    if loaded.ignored:
        notice(f"{broker_conf}: {counted(len(loaded.ignored), 'unused key')} ignored: {', '.join(loaded.ignored)}")
    if as_json:
        print_json({row.key: {"value": row.value, "origin": row.origin} for row in loaded.rows()})
        return
    rows = table("settings", "key", "value", "origin")
    for row in loaded.rows():
        rows.add_row(row.key, row.value, row.origin)
    show(rows)


def index_settings_from(path: Config, overrides: Set, broker_conf: BrokerConf = None) -> Settings:
    """Return the settings of :func:`settings_from`, of which those about the index and its storage alone are looked at.

    Raises:
        InvalidSettings: with every unknown key, and every bad value of these, and their origins.
    """
    return settings_from(path, overrides, broker_conf, groups=(Group.PULSAR, Group.STORAGE)).settings


def settings_from(
    path: Config, overrides: Set, broker_conf: BrokerConf = None, *, groups: Collection[Group] = tuple(Group)
) -> LoadedSettings:
    """Return the settings of the files, the environment and ``--set``. For ``groups`` see :func:`load_settings`.

    Raises:
        InvalidSettings: with every unknown key and bad value, and their origins.
    """
    pairs: dict[str, str] = {}
    for text in overrides or ():
        key, equals, value = text.partition("=")
        if not equals:
            raise InvalidInput("--set", text, "give KEY=VALUE")
        pairs[key.strip()] = value.strip()
    return load_settings(path, broker_conf=broker_conf, environ=os.environ, overrides=pairs, groups=groups)
