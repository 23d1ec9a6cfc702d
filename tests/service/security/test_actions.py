"""The table of actions is complete: a call or a route that is not in it cannot appear unseen."""

import inspect

from grpc_health.v1 import health_pb2

from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.grpc.reflection import reflection_names
from delayed_tracker.service.http.application import build_app
from delayed_tracker.service.http.message_id import AdminHooks, message_id_routes
from delayed_tracker.service.process.health import Health
from delayed_tracker.service.queries.ledger_access import LedgerAccess, LedgerAnswers
from delayed_tracker.service.security.actions import CALL_ACTIONS, CONTAINED, DESTRUCTIVE_CALLS, ROUTE_ACTIONS, Action
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.registry import open_storage
from delayed_tracker.v1 import ledger_pb2, tracker_pb2


def test_every_call_has_an_action():
    """The table has the calls of all services that are served, and no others."""
    services = [
        *tracker_pb2.DESCRIPTOR.services_by_name.values(),
        *ledger_pb2.DESCRIPTOR.services_by_name.values(),
        *health_pb2.DESCRIPTOR.services_by_name.values(),
    ]
    served = {f"{service.full_name}/{method.name}" for service in services for method in service.methods}
    served |= {f"{name}/ServerReflectionInfo" for name in reflection_names()}
    assert set(CALL_ACTIONS) == served
    assert {name.rpartition("/")[2] for name in CALL_ACTIONS} >= DESTRUCTIVE_CALLS


async def test_every_route_has_an_action():
    """The table has the routes of the application, and no others."""
    registry = TrackerRegistry(open_storage("memory:"), TrackerLimits())
    more = message_id_routes(LedgerAccess("", LedgerAnswers.of(Settings())), AdminHooks())
    app = build_app(Health(), ServiceMetrics(registry, version="1"), *more, failures=registry.calls.failures)
    assert {route.path for route in app.routes} == set(ROUTE_ACTIONS)
    await registry.close()


def test_every_action_is_explained():
    """Each action says what it contains, and contains itself."""
    assert set(CONTAINED) == set(Action)
    assert all(action in contained for action, contained in CONTAINED.items())
    assert all(f"    {action.name} =" in inspect.getsource(Action) for action in Action)
