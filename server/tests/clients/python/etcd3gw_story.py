"""The story of PyPI's etcd3gw: JSON over the gRPC gateway.

It has no calls for users and roles; for these it posts to the gateway itself.
"""

import json

from etcd3gw.client import Etcd3Client
from etcd3gw.utils import _encode as encode

from story import HTTP, HTTPS, PASSWORD, pki, refused, restart, tell, until


def kv(client):
    for i in range(5):
        client.put(f"list/{i}", str(9 - i))
    client.put("list/0", "again")
    (value, about), = client.get("list/0", metadata=True)
    tell("kv", value, about["version"], sorted(about), client.get("nothing"))
    by_value = client.get_prefix("list/", sort_order="descend", sort_target="value")
    tell("kv sorted", [about["key"] for _, about in by_value])
    replaced = client.replace("list/1", "8", "eight"), client.replace("list/1", "8", "never")
    created = client.create("list/1", "x"), client.create("new", "x")
    tell("kv conditional", replaced, created, client.get("list/1"))
    tell("kv deleted", client.delete_prefix("list/"), client.delete("list/0"), len(client.get_all()))
    tell("kv binary", client.put(b"\x00\xff", b"\xfe\n"), client.get(b"\x00\xff"))


def txn(client):
    client.put("txn", "one")
    key = encode("txn")
    is_one = {"key": key, "target": "VALUE", "result": "EQUAL", "value": encode("one")}
    put = {"request_put": {"key": key, "value": encode("two"), "prev_kv": True}}
    get = {"request_range": {"key": key}}
    work = {"compare": [is_one], "success": [put, get], "failure": [get]}
    for _ in range(2):
        done = client.transaction(work)
        kinds = [sorted(response) for response in done["responses"]]
        tell("txn", done.get("succeeded", "absent"), kinds, sorted(done["header"]))
    tell("txn refused", refused(client.transaction, {"success": [put, put]}))
    tell("txn malformed", refused(client.transaction, {"compare": [{"target": "NOTHING"}]}))


def lease(client):
    lease = client.lease(30)
    client.put("leased", "x", lease=lease)
    tell("lease", 0 < lease.ttl() <= 30, lease.keys(), lease.refresh())
    tell("lease revoked", lease.revoke(), client.get("leased"), lease.refresh(), lease.ttl())
    tell("lease unknown", refused(client.put, "leased", "x", lease=lease), refused(lease.revoke))
    events, cancel = client.watch("expires")
    client.put("expires", "x", lease=client.lease(1))
    tell("lease expired", [next(events).get("type", "PUT") for _ in range(2)])
    cancel()


def lock(client):
    with client.lock("name", ttl=30) as held:
        other = client.lock("name", ttl=30)
        tell("lock", held.is_acquired(), other.acquire(), held.refresh(), other.release())
    tell("lock released", held.is_acquired(), other.acquire(), other.is_acquired(), other.release())


def watch(client):
    """A watch ends with its connection, and the client does not say so: its user opens another
    behind what was seen."""
    kept = client.lease(60)
    client.put("watched/leased", "x", lease=kept)
    events, _ = client.watch_prefix("watched/", prev_kv=True)
    client.put("watched/a", "1")
    seen = [next(events)]
    restart()
    until(client.put, "watched/a", "2")
    client.delete("watched/leased")
    first = int(seen[0]["kv"]["mod_revision"]) + 1
    again, cancel = client.watch_prefix("watched/", start_revision=first, prev_kv=True)
    seen += [next(again) for _ in range(2)]
    told = [(event.get("type", "PUT"), event["kv"]["key"], sorted(event["kv"])) for event in seen]
    tell("watch", told, [event.get("prev_kv", {}).get("value") for event in seen])
    tell("watch lease", kept.keys(), kept.refresh())
    cancel()
    with client.session.post(client.get_url("/kv/compaction"), json={"revision": first}) as done:
        tell("compacted", done.status_code)
    create = {"create_request": {"key": encode("watched/a"), "start_revision": 1}}
    with client.session.post(client.get_url("/watch"), json=create, stream=True) as stream:
        lines = [json.loads(line)["result"] for _, line in zip(range(2), stream.iter_lines(chunk_size=1))]
        tell("watch compacted", [sorted(line) for line in lines])


def auth(plain):
    def call(path, **body):
        return plain.post(plain.get_url("/auth" + path), json=body)

    for role in "root", "writer":
        call("/role/add", name=role)
    allowed = {"permType": "READWRITE", "key": encode("mine/"), "range_end": encode("mine0")}
    call("/role/grant", name="writer", perm=allowed)
    for user, role in ("root", "root"), ("alice", "writer"):
        call("/user/add", name=user, password=PASSWORD)
        call("/user/grant", user=user, role=role)
    tell("auth set up", call("/user/get", name="alice")["roles"], call("/role/list")["roles"])
    call("/enable")
    tell("auth", refused(plain.get, "mine/a"))
    tell("auth wrong password", refused(named, "alice", "wrong"))
    alice = named("alice")
    alice.put("mine/a", "by alice")
    events, cancel = alice.watch("mine/a")
    alice.put("mine/a", "again")
    tell("auth alice", alice.get("mine/a"), next(events)["kv"]["value"])
    cancel()
    tell("auth denied", refused(alice.put, "yours", "x"), refused(alice.get_prefix, "m"))
    # The gateway does not take the certificate's common name for a user, and says so.
    tell("auth certificate", refused(secure().get, "mine/a"))
    restart()
    # Tokens are lost with the server.
    while (said := refused(alice.get, "mine/a")) == "ConnectionFailedError":
        pass
    tell("auth token lost", said)
    root = named("root")
    root.post(root.get_url("/auth/disable"), json={})
    tell("auth disabled", until(plain.get, "mine/a"), secure().get("mine/a"), refused(named, "alice"))


def named(user, password=PASSWORD):
    client = gateway(HTTP)
    who = {"name": user, "password": password}
    answer = client.post(client.get_url("/auth/authenticate"), json=who)
    client.session.headers["Authorization"] = answer["token"]
    return client


def secure():
    return over_tls(cert_key=pki("client-key.pem"), cert_cert=pki("client.pem"))


def over_tls(**own):
    client = gateway(HTTPS, protocol="https", ca_cert=pki("ca.pem"), **own)
    # Or else REQUESTS_CA_BUNDLE wins over the authority given.
    client.session.trust_env = False
    return client


def gateway(port, **more):
    return Etcd3Client("127.0.0.1", port, api_path="/v3/", timeout=30, **more)


def tls():
    client = over_tls()
    tell("tls without a certificate", refused(client.get, "a"))
    client = secure()
    tell("tls", client.put("tls", "x"), client.get("tls"))


def main():
    discovered = Etcd3Client("127.0.0.1", HTTP, api_path=None)
    tell("version", discovered.api_path, discovered.status()["version"], sorted(discovered.status()))
    tell("members", [sorted(member) for member in discovered.members()])
    client = gateway(HTTP)
    for part in kv, txn, lease, lock, watch:
        part(client)
    tls()
    auth(client)


main()
