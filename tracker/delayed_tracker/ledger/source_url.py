"""Sources of ledgers by URL: ``scheme:place?option=value``, for all commands and the Spark job.

    bookkeeper+file:DIR[,DIR...]?metadata=DUMP[&openLedgers=live]   disks of one or more bookies together
    bookkeeper+zk:HOST:PORT[,HOST:PORT...][/ROOT][?maxBytesPerSecond=N]
                                                                    a running cluster, by its ZooKeeper
    ledger:DIR[?openLedgers=recovered]                              local managed ledgers
    offload+mapfile:DIR[?metadata=DUMP]                             tiered storage of the filesystem driver
    offload+blob:URL[?metadata=DUMP]                                that of the blob store driver: s3://bucket/prefix,
                                                                    gs://, az://, file:///directory, or a directory

A place is a path, with or without ``file://``. Use percent-encoding for characters that have a meaning in a URL.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.files.home_paths import refuse_home_path
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.live.address import OPTIONS, ClusterAddress, refuse_other_store
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.offload.blob_source import open_blobs
from delayed_tracker.ledger.offload.map_file_source import open_map_files
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.source import open_bookie_disk
from delayed_tracker.ledger.topic.combined_source import CombinedSource
from delayed_tracker.ledger.topic.topic_log import LedgerSource
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers

if TYPE_CHECKING:
    from delayed_tracker.ledger.live.source import LiveCluster


@dataclass(frozen=True, slots=True)
class SourceUrl:
    """Parts of a source's URL."""

    text: str
    scheme: str
    place: str
    """Text between the scheme and the options, still percent-encoded."""
    options: Mapping[str, str]

    @property
    def paths(self) -> list[str]:
        """Place as one or more local paths, which commas separate in the URL."""
        return [unquote(part.removeprefix("file://")) for part in self.place.split(",") if part]

    def one_path(self) -> str:
        """Return the place as a local path.

        Raises:
            InvalidInput: the place is several paths.
        """
        if len(self.paths) != 1:
            raise InvalidInput("source", self.text, f"give one place, with a comma in it as %2C; {self.scheme} has one")
        return self.paths[0]

    def expect(self, *known: str) -> None:
        """Refuse options other than these.

        Raises:
            InvalidInput: an option is unknown. The message names it and the known ones.
        """
        for option in self.options:
            if option not in known:
                near = get_close_matches(option, known, n=1)
                hint = f"did you mean {near[0]!r}? " if near else ""
                raise InvalidInput("source", self.text, f"{hint}options of {self.scheme} are {', '.join(known)}")

    def part(self, value: str) -> str:
        """Return the text of a value in the URL: ``option=value`` for an option, anything else unchanged."""
        return next((f"{name}={value}" for name, given in self.options.items() if given == value), value)

    def with_defaults(self, options: Mapping[str, str]) -> str:
        """Return the URL, with those of the given options added that it lacks. Values are encoded here."""
        added = [f"{name}={quote(value)}" for name, value in options.items() if name not in self.options]
        if not added:
            return self.text
        return f"{self.text}{'&' if self.options else '?'}{'&'.join(added)}"

    def required(self, option: str, why: str) -> str:
        """Return the value of an option that must be present.

        Raises:
            InvalidInput: it is missing; ``why`` explains its purpose.
        """
        value = self.options.get(option)
        if not value:
            raise InvalidInput("source", self.text, f"add {option}=...: {why}")
        return value


def split_sources(text: str) -> list[str]:
    """Split a text into URLs at the spaces between them.

    Raises:
        InvalidInput: a path contains a space, so that the text behind it has no scheme.
    """
    texts = text.split()
    for rest in texts[1:]:
        if not _SCHEME.match(rest):
            remedy = f"sources are separated by spaces, and {rest!r} is not a source: write %20 for a space in a path"
            raise InvalidInput("source", text, remedy)
    return texts


def parse_source_url(text: str) -> SourceUrl:
    """Parse a URL.

    Raises:
        InvalidInput: it has no scheme, no place, an option twice or without a value, or a path that begins with ``~``.
    """
    scheme, colon, rest = text.partition(":")
    place, _, query = rest.partition("?")
    if not colon or not scheme or not place:
        raise InvalidInput("source", text, f"give scheme:place, with one of the schemes {', '.join(sorted(_OPENERS))}")
    # In paths a plus stands for itself; only HTML forms use it for a blank.
    pairs = parse_qsl(query.replace("+", "%2B"), keep_blank_values=True)
    options = dict(pairs)
    if len(options) < len(pairs) or not all(options.values()):
        raise InvalidInput("source", text, "give each option once, as option=value, divided by &")
    url = SourceUrl(text, scheme, place, options)
    for path in (*url.paths, options.get("metadata", "")):
        refuse_home_path("source", text, path)
    return url


def open_source(
    text: str, *, progress: Progress | None = None, on_error: ErrorPolicy = ErrorPolicy.FAIL
) -> LedgerSource:
    """Open the source of ledgers that a URL names.

    Args:
        text: the URL.
        progress: called with bytes scanned and bytes in all, by sources that must scan before they can read.
        on_error: SKIP opens blobs without metadata even if a damaged index may belong to any ledger.
    Raises:
        InvalidInput: an unknown scheme or option; a place that does not exist or has no ledgers of this kind; a file
            that cannot be read. The message names the part of the URL.
        LedgerFileInvalid: a file is damaged, of another kind, or of a newer version.
        MetadataInvalid: the metadata is damaged.
        OSError: a bucket or ZooKeeper does not answer.
    """
    url = require_source(text)
    with translate_source_errors(url):
        return _OPENERS[url.scheme](url, progress, on_error)


def require_source(text: str) -> SourceUrl:
    """Parse a URL and check its scheme and its options, without access to its place.

    Raises:
        InvalidInput: the scheme, an option or a value is unknown, or an option is missing.
    """
    url = parse_source_url(text)
    refuse_other_store(text, url.scheme)
    match url.scheme:
        case "bookkeeper+file":
            bookie_disk_options(url)
        case "bookkeeper+zk":
            cluster_address(url)
        case "ledger":
            url.expect("openLedgers")
            _open_ledgers(url, OpenLedgers.LIVE)
        case "offload+blob" | "offload+mapfile":
            url.expect("metadata")
        case _:
            raise InvalidInput("source", text, f"known schemes are {', '.join(sorted(_OPENERS))}")
    return url


@contextmanager
def translate_source_errors(url: SourceUrl, remedy: str = "name files that can be read") -> Iterator[None]:
    """Convert errors of opening a source to errors that name its URL and the part of it, as the user wrote them.

    Args:
        url: URL of the source.
        remedy: remedy in the error for files that cannot be used.
    Raises:
        InvalidInput: a part is not valid, or a file cannot be used.
        OSError: a bucket or ZooKeeper does not answer.
    """
    try:
        yield
    except InvalidInput as error:
        if error.field not in _PARTS:
            raise
        raise InvalidInput("source", url.text, f"{url.part(str(error.value))}: {error.remedy}") from error
    except OSError as error:
        if error.filename is None:
            raise
        raise InvalidInput(
            "source", url.text, f"{url.part(str(error.filename))}: {error.strerror}; {remedy}"
        ) from error


def open_sources(
    texts: Sequence[str], *, progress: Progress | None = None, on_error: ErrorPolicy = ErrorPolicy.FAIL
) -> LedgerSource:
    """Open one or more sources. With several, each ledger of a topic is read from the first that has all of it.

    Args:
        texts: URLs, at least one.
        progress: as for :func:`open_source`, for one source after the other.
        on_error: as for :func:`open_source`.
    Raises: as :func:`open_source`.
    """
    opened: list[LedgerSource] = []
    with ExitStack() as stack:
        opened += (stack.enter_context(open_source(text, progress=progress, on_error=on_error)) for text in texts)
        combined = opened[0] if len(opened) == 1 else CombinedSource(opened)
        stack.pop_all()
    return combined


def _open_bookie_disk(url: SourceUrl, progress: Progress | None, _on_error: ErrorPolicy) -> LedgerSource:
    dump, open_ledgers = bookie_disk_options(url)
    return open_bookie_disk(url.paths, dump, open_ledgers=open_ledgers, progress=progress)


def bookie_disk_options(url: SourceUrl) -> tuple[str, OpenLedgers]:
    """Return the metadata dump and the handling of open ledgers from a URL for the disks of bookies.

    Raises:
        InvalidInput: an unknown option or value, or no metadata.
    """
    url.expect("metadata", "openLedgers")
    dump = url.required("metadata", "a dump of the metadata store says which ledgers make a topic")
    return dump, _open_ledgers(url, OpenLedgers.RECOVERED)


def cluster_address(url: SourceUrl) -> ClusterAddress:
    """Return the cluster and the rate from a URL for a running cluster.

    Raises:
        InvalidInput: an unknown option or value, or no addresses.
    """
    url.expect(*OPTIONS)
    return ClusterAddress.parse(url.text, url.place, url.options)


def _open_cluster(url: SourceUrl, _progress: Progress | None, _on_error: ErrorPolicy) -> LedgerSource:
    return open_live_cluster(url)


def open_live_cluster(url: SourceUrl, *, pinned: bool = False) -> "LiveCluster":
    """Connect to the running cluster of a URL; see :class:`~delayed_tracker.ledger.live.source.LiveCluster`.

    Raises:
        InvalidInput: an unknown option or value, no cluster at the address, or the ZooKeeper client is not installed.
        MetadataUnavailable: ZooKeeper does not answer.
    """
    try:
        # The ZooKeeper client is no dependency of the other sources.
        from delayed_tracker.ledger.live.source import LiveCluster  # noqa: PLC0415
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("kazoo"):
            raise
        remedy = "install the ZooKeeper client: pip install 'delayed-tracker[bookkeeper]'"
        raise InvalidInput("source", url.text, remedy) from error
    return LiveCluster.open(cluster_address(url), pinned=pinned)


def _open_local_ledgers(url: SourceUrl, _progress: Progress | None, _on_error: ErrorPolicy) -> LedgerSource:
    return open_local_ledgers(url.one_path(), open_ledgers=_open_ledgers(url, OpenLedgers.LIVE))


def _open_map_files(url: SourceUrl, _progress: Progress | None, _on_error: ErrorPolicy) -> LedgerSource:
    return open_map_files(url.one_path(), metadata_dump=url.options.get("metadata"))


def _open_blobs(url: SourceUrl, _progress: Progress | None, on_error: ErrorPolicy) -> LedgerSource:
    place = url.place if "://" in url.place else url.one_path()
    return open_blobs(place, metadata_dump=url.options.get("metadata"), on_error=on_error)


def _open_ledgers(url: SourceUrl, default: OpenLedgers) -> OpenLedgers:
    value = url.options.get("openLedgers", default.value)
    try:
        return OpenLedgers(value)
    except ValueError as error:
        allowed = " or ".join(choice.value for choice in OpenLedgers)
        raise InvalidInput("source", url.text, f"openLedgers is {allowed}") from error


_SCHEME: Final = re.compile(r"[a-z][a-z0-9+]*:")
_PARTS: Final = frozenset({"base", "blob store", "directory", "log_directories", "metadata"})
"""Fields of :class:`InvalidInput` that name a part of the URL."""
_OPENERS: Final[Mapping[str, Callable[[SourceUrl, Progress | None, ErrorPolicy], LedgerSource]]] = {
    "bookkeeper+file": _open_bookie_disk,
    "bookkeeper+zk": _open_cluster,
    "ledger": _open_local_ledgers,
    "offload+blob": _open_blobs,
    "offload+mapfile": _open_map_files,
}
