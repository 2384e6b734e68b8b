"""The operator of shops with kopf, and with Kubernetes' own client for the objects that it makes.

Each shop gets a config map and a service, and a ledger that only the shop's deletion removes. It
runs until its input ends.
"""

import sys
import threading
from datetime import datetime, timezone

import kopf
from kubernetes import client, config

GROUP, VERSION, PLURAL = "stele.test", "v1", "shops"
LABEL = "stele.test/shop"


def config_map(name: str, greeting: str) -> dict:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {LABEL: name}},
        "data": {"greeting": greeting},
    }


def service(name: str, port: int) -> dict:
    ports = [{"name": "web", "port": port, "targetPort": 8080}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {LABEL: name}},
        "spec": {"selector": {"app": name}, "ports": ports},
    }


def keep(create, patch, namespace: str, wanted: dict) -> None:
    """Creates an object, or patches the one that exists."""
    try:
        create(namespace, wanted)
    except client.ApiException as refused:
        if refused.status != 409:
            raise
        patch(wanted["metadata"]["name"], namespace, wanted)


def set_port(name: str, namespace: str, wanted: dict) -> None:
    """A JSON patch: a strategic one would add a second port, because the number is its key."""
    port = wanted["spec"]["ports"][0]["port"]
    change = [{"op": "replace", "path": "/spec/ports/0/port", "value": port}]
    client.CoreV1Api().patch_namespaced_service(name, namespace, change)


def keep_children(shop: dict) -> None:
    core = client.CoreV1Api()
    name, namespace = shop["metadata"]["name"], shop["metadata"]["namespace"]
    for create, patch, wanted in (
        (
            core.create_namespaced_config_map,
            core.patch_namespaced_config_map,
            config_map(name, shop["spec"]["greeting"]),
        ),
        (
            core.create_namespaced_service,
            set_port,
            service(name, shop["spec"]["port"]),
        ),
    ):
        kopf.append_owner_reference(wanted, owner=shop)
        keep(create, patch, namespace, wanted)


@kopf.on.startup()
def begin(settings: kopf.OperatorSettings, **_) -> None:
    config.load_kube_config()
    settings.persistence.finalizer = f"{GROUP}/ledger"


@kopf.on.create(GROUP, VERSION, PLURAL)
def open_ledger(name, namespace, **_) -> str:
    ledger = {"metadata": {"name": f"{name}-ledger"}, "data": {"shop": name}}
    core = client.CoreV1Api()
    keep(
        core.create_namespaced_config_map,
        core.patch_namespaced_config_map,
        namespace,
        ledger,
    )
    return ledger["metadata"]["name"]


@kopf.on.create(GROUP, VERSION, PLURAL)
@kopf.on.update(GROUP, VERSION, PLURAL, field="spec")
def follow(body, spec, meta, name, status, patch, **_) -> None:
    keep_children(body)
    patch.status["replicas"] = spec["replicas"]
    patch.status["selector"] = f"app={name}"
    patch.status["observedGeneration"] = meta["generation"]
    before = status.get("conditions", [{}])[0]
    now = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "Open",
        "message": f"says {spec['greeting']}",
        "lastTransitionTime": before.get("lastTransitionTime", now),
    }
    patch.status["conditions"] = [ready]
    kopf.event(body, type="Normal", reason="Open", message=f"says {spec['greeting']}")


@kopf.on.delete(GROUP, VERSION, PLURAL)
def close_ledger(name, namespace, **_) -> None:
    client.CoreV1Api().delete_namespaced_config_map(f"{name}-ledger", namespace)


@kopf.on.event("", "v1", "configmaps", labels={LABEL: kopf.PRESENT})
def restore(type, name, namespace, logger, **_) -> None:
    """Creates a config map again that somebody deleted."""
    if type != "DELETED":
        return
    shops = client.CustomObjectsApi()
    try:
        shop = shops.get_namespaced_custom_object(
            GROUP, VERSION, namespace, PLURAL, name
        )
    except client.ApiException as refused:
        if refused.status != 404:
            raise
        return
    if "deletionTimestamp" not in shop["metadata"]:
        keep_children(shop)


def main() -> None:
    stop = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    kopf.configure(verbose=True)
    kopf.run(standalone=True, clusterwide=True, stop_flag=stop)


if __name__ == "__main__":
    main()
