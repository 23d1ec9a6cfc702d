"""The files for Kubernetes fit its schemas, each other, the image and the service."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from delayed_tracker.service.security.rules import Rules
from delayed_tracker.service.settings.file import parse_properties
from delayed_tracker.service.settings.settings import SETTING_KEYS
from tests.repository.deployment.tools import CONF, find_tool

FILES = sorted((CONF / "kubernetes").glob("*.yaml"))
VERSIONS = ("1.30", "1.37")
"""The oldest Kubernetes of whose features the files make use, and the newest whose schemas are there."""


def objects() -> list[dict[str, Any]]:
    return [row for path in FILES for row in yaml.safe_load_all(path.read_text(encoding="utf-8"))]


def of_kind(kind: str) -> dict[str, Any]:
    (found,) = [row for row in objects() if row["kind"] == kind]
    return found


POD = of_kind("StatefulSet")["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
SETTINGS = {
    row.key: row.value for row in parse_properties(of_kind("ConfigMap")["data"]["tracker.conf"].encode("utf-8"))
}


def validate(version: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [find_tool("kubernetes-validate"), "--strict", "--kubernetes-version", version, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_schemas_of_kubernetes_accept_the_file(path: Path, version: str):
    """No property is unknown, missing or of a wrong type."""
    checked = validate(version, path)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.slow
def test_schemas_refuse_a_misspelt_property(tmp_path: Path):
    """The check above can fail."""
    wrong = tmp_path / "wrong.yaml"
    text = (CONF / "kubernetes" / "stateful-set.yaml").read_text(encoding="utf-8")
    wrong.write_text(text.replace("readinessProbe", "readyProbe"), encoding="utf-8")
    assert validate(VERSIONS[-1], wrong).returncode != 0


def test_there_is_everything_that_a_deployment_needs():
    kinds = sorted(row["kind"] for row in objects())
    assert kinds == ["ConfigMap", "NetworkPolicy", "PodDisruptionBudget", "Service", "Service", "StatefulSet"]


def test_selectors_find_the_pods():
    """Services, budget, policy and the set itself select the labels that the pods have."""
    labels = POD["metadata"]["labels"].items()
    selectors = [row["spec"]["selector"] for row in objects() if row["kind"] == "Service"]
    selectors += [of_kind(kind)["spec"]["selector"]["matchLabels"] for kind in ("StatefulSet", "PodDisruptionBudget")]
    selectors.append(of_kind("NetworkPolicy")["spec"]["podSelector"]["matchLabels"])
    assert selectors
    assert all(selector.items() <= labels for selector in selectors)
    names = {row["metadata"]["name"] for row in objects() if row["kind"] == "Service"}
    assert of_kind("StatefulSet")["spec"]["serviceName"] in names


def test_ports_are_those_that_the_service_listens_on():
    """Each listen address has a port of the container; Services, probes and the policy name these ports."""
    ports = {row["name"]: row["containerPort"] for row in CONTAINER["ports"]}
    listens = {key: int(value.rpartition(":")[2]) for key, value in SETTINGS.items() if key.endswith("ListenAddress")}
    assert listens == {
        "grpcListenAddress": ports["grpc"],
        "httpListenAddress": ports["https"],
        "healthListenAddress": ports["health"],
    }
    named = {
        row["targetPort"] for service in objects() if service["kind"] == "Service" for row in service["spec"]["ports"]
    }
    probes = [CONTAINER[name]["httpGet"]["port"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    policy = {port["port"] for rule in of_kind("NetworkPolicy")["spec"]["ingress"] for port in rule["ports"]}
    assert named == {"grpc", "https"}
    assert set(probes) == {"health"}
    assert policy == set(ports)


def test_settings_are_those_of_the_service():
    """Every key of the ConfigMap is a setting, and the rules can be read."""
    assert set(SETTINGS) <= set(SETTING_KEYS)
    rules = of_kind("ConfigMap")["data"]["rules.json"]
    Rules.parse(rules.encode("utf-8"))
    assert {row["role"] for row in json.loads(rules)["rules"]} == {"dispatcher", "prometheus"}


def test_files_of_the_settings_are_mounted():
    """Each path of the settings is in a volume of the pod, and each volume is used."""
    mounts = {row["mountPath"]: row["name"] for row in CONTAINER["volumeMounts"]}
    paths = [value.rpartition(":")[2].removeprefix("//") for value in SETTINGS.values() if value.count("/") > 2]
    assert len(paths) == 5
    used = {
        mounts[mount] for path in [*paths, CONTAINER["args"][-1]] for mount in mounts if path.startswith(f"{mount}/")
    }
    claims = {row["metadata"]["name"] for row in of_kind("StatefulSet")["spec"]["volumeClaimTemplates"]}
    volumes = {row["name"] for row in POD["spec"]["volumes"]} | claims
    assert volumes == set(mounts.values())
    assert used == volumes - {"temporary"}
    assert all(any(path.startswith(f"{mount}/") for mount in mounts) for path in paths)


def test_the_container_cannot_change_its_root():
    """It has no capability, no other user's rights, and writes to its volumes only."""
    allowed = CONTAINER["securityContext"]
    assert (allowed["readOnlyRootFilesystem"], allowed["allowPrivilegeEscalation"]) == (True, False)
    assert allowed["capabilities"] == {"drop": ["ALL"]}
    pod = POD["spec"]["securityContext"]
    assert (pod["runAsNonRoot"], pod["runAsUser"]) == (True, 10001)
    writable = [row["name"] for row in CONTAINER["volumeMounts"] if not row.get("readOnly")]
    assert writable == ["data", "temporary"]


def test_a_stop_has_time():
    """The pause before SIGTERM and the grace period of the service fit into the pod's."""
    pause = int(CONTAINER["lifecycle"]["preStop"]["exec"]["command"][1])
    grace_s = int(SETTING_KEYS["shutdownGraceMillis"].default) / 1_000
    assert pause + grace_s < POD["spec"]["terminationGracePeriodSeconds"]


def test_the_service_monitor_says_that_nothing_validates_it():
    (path,) = (CONF / "kubernetes" / "prometheus-operator").glob("*.yaml")
    text = path.read_text(encoding="utf-8")
    assert "Not validated" in text
    (endpoint,) = yaml.safe_load(text)["spec"]["endpoints"]
    (port,) = [row["port"] for row in of_kind_named("delayed-tracker") if row["name"] == endpoint["port"]]
    assert port == 7651


def of_kind_named(name: str) -> list[dict[str, Any]]:
    (found,) = [row for row in objects() if row["kind"] == "Service" and row["metadata"]["name"] == name]
    ports: list[dict[str, Any]] = found["spec"]["ports"]
    return ports
