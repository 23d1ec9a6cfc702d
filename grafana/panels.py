"""Building blocks of the dashboards: variables, queries, and four kinds of panels with the same style everywhere.

Every panel has a unit and a description that states the remedy. Rates are over ``$__rate_interval``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.builders import heatmap, prometheus, stat, table, timeseries
from grafana_foundation_sdk.models import common, dashboard
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as prometheus_models

Panel: TypeAlias = timeseries.Panel | stat.Panel | heatmap.Panel | table.Panel

SOURCE: Final = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
SERVICE: Final = 'job=~"$job",instance=~"$instance"'
"""Selector of the services that the variables of every dashboard choose."""
TRACKER: Final = SERVICE + ',topic=~"$topic",subscription=~"$subscription"'
"""Selector of trackers that have series of their own."""
ROW_WIDTH: Final = 24
_HEIGHT: Final = 8
_STAT_HEIGHT: Final = 4


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel."""

    expr: str
    legend: str = ""


def rate(metric: str, by: str = "", selector: str = SERVICE) -> str:
    """Return the rate of a counter per second, summed by labels."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} (rate({metric}{{{selector}}}[$__rate_interval]))"


def total(metric: str, by: str = "", selector: str = SERVICE) -> str:
    """Return a gauge summed by labels."""
    grouped = f" by ({by})" if by else ""
    return f"sum{grouped} ({metric}{{{selector}}})"


def quantile(share: float, histogram: str, by: str = "", selector: str = SERVICE) -> str:
    """Return a quantile of a cumulative histogram, over the time between two points of the panel."""
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {rate(f'{histogram}_bucket', labels, selector)})"


def quantiles(histogram: str, *shares: float) -> list[Query]:
    """Return several quantiles of one histogram."""
    return [Query(quantile(share, histogram), f"p{share * 100:g}") for share in shares]


def times_to_deadlines(prefix: str, selector: str = SERVICE) -> list[Query]:
    """Return the times to the first and the last deadline, from gauges whose names begin with ``prefix``."""
    ends = (("earliest", "min", "first"), ("latest", "max", "last"))
    return [
        Query(f"clamp_min ({pick} ({prefix}_{end}_deadline_timestamp_seconds{{{selector}}}) - time(), 0)", legend)
        for end, pick, legend in ends
    ]


def graph(
    title: str, description: str, unit: str, *queries: Query, width: int = 12, stacked: bool = False
) -> timeseries.Panel:
    """Return a panel with lines over time."""
    panel = timeseries.Panel().title(title).description(description).datasource(SOURCE).unit(unit)
    panel.span(width).height(_HEIGHT).axis_soft_min(0).fill_opacity(25 if stacked else 8).line_width(1)
    panel.show_points(common.VisibilityMode.NEVER)
    panel.tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI))
    panel.legend(
        common_builders.VizLegendOptions()
        .display_mode(common.LegendDisplayMode.TABLE)
        .placement(common.LegendPlacement.BOTTOM)
        .show_legend(True)
        .calcs(["lastNotNull", "max"])
    )
    if stacked:
        panel.stacking(common_builders.StackingConfig().mode(common.StackingMode.NORMAL))
    for target in _targets(queries):
        panel.with_target(target)
    return panel


def number(
    title: str, description: str, unit: str, query: Query, *, width: int = 4, red_from: float | None = None
) -> stat.Panel:
    """Return a panel with the present value, red from a bound on."""
    panel = stat.Panel().title(title).description(description).datasource(SOURCE).unit(unit)
    panel.span(width).height(_STAT_HEIGHT).reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
    panel.graph_mode(common.BigValueGraphMode.AREA)
    steps = [dashboard.Threshold(value=None, color="green")]
    if red_from is not None:
        steps.append(dashboard.Threshold(value=red_from, color="red"))
    panel.thresholds(builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(steps))
    for target in _targets([query]):
        panel.with_target(target)
    return panel


def distribution(title: str, description: str, unit: str, histogram: str, *, width: int = 12) -> heatmap.Panel:
    """Return a panel with the distribution of a cumulative histogram over time."""
    panel = heatmap.Panel().title(title).description(description).datasource(SOURCE).span(width).height(_HEIGHT)
    panel.y_axis(heatmap.YAxisConfig().unit(unit))
    panel.color(heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME).scheme("Oranges"))
    target = _targets([Query(rate(f"{histogram}_bucket", "le"), "{{le}}")])[0]
    panel.with_target(target.format(prometheus_models.PromQueryFormat.HEATMAP))
    return panel


def ranking(title: str, description: str, unit: str, query: Query, *, width: int = 12) -> table.Panel:
    """Return a panel with the series of an instant query as rows, their labels as columns."""
    panel = table.Panel().title(title).description(description).datasource(SOURCE).span(width).height(_HEIGHT)
    panel.override_by_name("Value", [dashboard.DynamicConfigValue(id_val="unit", value=unit)])
    hidden = dict.fromkeys(("Time", "__name__", "job", "cluster"), True)
    panel.with_transformation(dashboard.DataTransformerConfig(id_val="organize", options={"excludeByName": hidden}))
    target = _targets([query])[0]
    panel.with_target(target.format(prometheus_models.PromQueryFormat.TABLE).instant())
    return panel


def _targets(queries: Sequence[Query]) -> list[prometheus.Dataquery]:
    return [
        prometheus.Dataquery().expr(query.expr).legend_format(query.legend).ref_id(chr(ord("A") + number)).range()
        for number, query in enumerate(queries)
    ]


def board(uid: str, title: str, description: str, *variables: builders.QueryVariable) -> builders.Dashboard:
    """Return an empty dashboard with variables for data source, job and instance, and links to the other dashboards."""
    made = builders.Dashboard(title).uid(uid).description(description).tags(["delayed-tracker"]).timezone("browser")
    made.refresh("30s").time("now-6h", "now").editable().tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
    made.link(
        builders.DashboardLink("Delayed-delivery tracker")
        .type(dashboard.DashboardLinkType.DASHBOARDS)
        .tags(["delayed-tracker"])
        .as_dropdown(True)
        .keep_time(True)
        .include_vars(True)
    )
    made.with_variable(builders.DatasourceVariable("datasource").label("Data source").type("prometheus"))
    for variable in variables:
        made.with_variable(variable)
    return made


def choice(name: str, label: str, metric: str, selector: str = "", *, of: str = "") -> builders.QueryVariable:
    """Return a variable with the values of a metric's label. Several may be chosen; all are chosen at first."""
    everything = dashboard.VariableOption(text="All", value="$__all", selected=True)
    return (
        builders.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(f"label_values({metric}{{{selector}}}, {of or name})")
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(dashboard.VariableSort.ALPHABETICAL_ASC)
        .multi(True)
        .include_all(True)
        .current(everything)
    )


def service_choices() -> tuple[builders.QueryVariable, builders.QueryVariable]:
    """Return the variables that choose the services of a dashboard."""
    return (
        choice("job", "Job", "delayed_tracker_build_info"),
        choice("instance", "Instance", "delayed_tracker_build_info", 'job=~"$job"'),
    )


def add_row(to: builders.Dashboard, title: str, *panels: Panel) -> None:
    """Add panels below a headline."""
    to.with_row(builders.Row(title))
    for panel in panels:
        to.with_panel(panel)
