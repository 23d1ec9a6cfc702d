"""Creates interceptors from the class names in the setting ``brokerEntryMetadataInterceptors``.

The built-in interceptors have three names each: Pulsar's class name with and without its package, and a short name.
Another Python distribution can declare ``name = "module:Class"`` under the entry-point group below. Its interceptor
then has the names ``name`` and ``module.Class``.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final, cast

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.entry.interceptors import (
    AppendBrokerTimestampMetadataInterceptor,
    AppendIndexMetadataInterceptor,
    BrokerEntryMetadataInterceptor,
)

ENTRY_POINT_GROUP: Final = "delayed_tracker.broker_entry_metadata_interceptor"
SETTING: Final = "brokerEntryMetadataInterceptors"

_PULSAR_PACKAGE: Final = "org.apache.pulsar.common.intercept."
_OURS: Final[Mapping[str, Callable[[], BrokerEntryMetadataInterceptor]]] = {
    "broker-timestamp": AppendBrokerTimestampMetadataInterceptor,
    "index": AppendIndexMetadataInterceptor,
    "AppendBrokerTimestampMetadataInterceptor": AppendBrokerTimestampMetadataInterceptor,
    "AppendIndexMetadataInterceptor": AppendIndexMetadataInterceptor,
}


def load_interceptors(names: Sequence[str]) -> tuple[BrokerEntryMetadataInterceptor, ...]:
    """Create the interceptors of one topic, in the order of their names. A name given twice counts once.

    Args:
        names: class names or short names, without surrounding blanks; empty for no interceptors.
    Raises:
        InvalidInput: the name is unknown (the message lists the known ones), or the class cannot be loaded.
    """
    factories = dict.fromkeys(_factory(name) for name in names)
    interceptors = []
    for factory in factories:
        interceptor = factory()
        if not callable(getattr(interceptor, "intercept", None)):
            raise InvalidInput(SETTING, repr(factory), "name a class with a method intercept(metadata, num_messages)")
        interceptors.append(interceptor)
    return tuple(interceptors)


def _factory(name: str) -> Callable[[], BrokerEntryMetadataInterceptor]:
    ours = _OURS.get(name.removeprefix(_PULSAR_PACKAGE))
    if ours is not None:
        return ours
    installed = tuple(entry_points(group=ENTRY_POINT_GROUP))
    for found in installed:
        if name in {found.name, found.value.replace(":", ".")}:
            return _loaded(name, found)
    known = [*_OURS, *sorted({found.name for found in installed} - _OURS.keys())]
    raise InvalidInput(SETTING, name, f"known are {', '.join(known)}")


def _loaded(name: str, found: EntryPoint) -> Callable[[], BrokerEntryMetadataInterceptor]:
    try:
        factory = found.load()
    except (ImportError, AttributeError) as error:
        raise InvalidInput(SETTING, name, f"{found.value} cannot be loaded ({error}); install it again") from error
    return cast("Callable[[], BrokerEntryMetadataInterceptor]", factory)
