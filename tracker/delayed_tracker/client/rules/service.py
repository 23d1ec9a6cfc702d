"""Exchanges of the calls that need no open tracker: open, delete, import, list."""

import os
import socket

from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import OpenAnswer, Position
from delayed_tracker.client.model.bounds import UINT32_MAX, bounded, place_message, text
from delayed_tracker.client.model.exchange import Exchange, ask
from delayed_tracker.client.model.reports import TrackerPage
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.importing import import_header
from delayed_tracker.v1 import tracker_pb2 as pb


class ServiceRules:
    """Calls of one client, as exchanges."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings

    def open_tracker(
        self, topic: str, subscription: str, *, owner: str | None, mark_delete: Position | None
    ) -> Exchange[OpenAnswer]:
        """Call OpenTracker; without an owner's name, the owner is this host and process."""
        request = pb.OpenTrackerRequest(
            tracker=convert.tracker_ref(topic, subscription),
            owner=text("owner", _owner_name(owner)),
            mark_delete=None if mark_delete is None else place_message("mark_delete", mark_delete),
        )
        answer = yield from ask("OpenTracker", request, pb.OpenTrackerResponse, timeout_s=self.settings.open_timeout_s)
        return OpenAnswer(
            epoch=answer.epoch,
            replay_from=convert.position(answer.replay_from) if answer.HasField("replay_from") else None,
            recovered_count=answer.recovered_count,
            bucket_count=answer.bucket_count,
            add_log_missing=answer.add_log_missing,
        )

    def import_header(
        self,
        topic: str,
        subscription: str,
        *,
        owner: str | None,
        bucket_count: int,
        expected_epoch: int | None,
        mark_delete: Position | None,
        offered_through: Position | None = None,
    ) -> pb.ImportSnapshotsRequest:
        """Return the first request of ImportSnapshots; without an owner's name, the owner is this host and process."""
        return import_header(
            topic,
            subscription,
            owner=_owner_name(owner),
            bucket_count=bucket_count,
            expected_epoch=expected_epoch,
            mark_delete=mark_delete,
            offered_through=offered_through,
        )

    def delete_tracker(self, topic: str, subscription: str) -> Exchange[int]:
        """Call DeleteTracker without an epoch: any client may delete the tracker."""
        request = pb.DeleteTrackerRequest(tracker=convert.tracker_ref(topic, subscription))
        answer = yield from ask(
            "DeleteTracker", request, pb.DeleteTrackerResponse, timeout_s=self.settings.open_timeout_s
        )
        return answer.deleted_count

    def list_trackers(self, topic_prefix: str, *, page_size: int, page_token: str) -> Exchange[TrackerPage]:
        """Call ListTrackers for one page."""
        request = pb.ListTrackersRequest(
            topic_prefix=text("topic_prefix", topic_prefix),
            page_size=bounded("page_size", page_size, minimum=1, maximum=UINT32_MAX),
            page_token=page_token,
        )
        return convert.tracker_page((yield from ask("ListTrackers", request, pb.ListTrackersResponse)))


def _owner_name(given: str | None) -> str:
    return f"{socket.gethostname()}:{os.getpid()}" if given is None else given
