"""The story of PyPI's etcd3: gRPC, from the generated code of 2018 on.

It has no calls for users and roles; for these its generated stubs are used.
"""

import etcd3
import etcd3.etcdrpc as rpc

from story import HTTP, HTTPS, PASSWORD, pki, refused, restart, tell, until


def kv(client):
    for i in range(5):
        client.put(f"list/{i}", str(9 - i))
    previous = client.put("list/0", "again", prev_kv=True).prev_kv
    value, about = client.get("list/0")
    tell("kv", value, about.version, previous.value, client.get("nothing"))
    by_value = client.get_prefix("list/", sort_order="descend", sort_target="value")
    tell("kv sorted", [about.key for _, about in by_value])
    replaced = client.replace("list/1", "8", "eight"), client.replace("list/1", "8", "never")
    created = client.put_if_not_exists("list/1", "x"), client.put_if_not_exists("new", "x")
    tell("kv conditional", replaced, created, client.get("list/1")[0])
    gone = client.delete_prefix("list/")
    tell("kv deleted", gone.deleted, client.delete("list/0"), len(list(client.get_all())))


def txn(client):
    ops = client.transactions
    client.put("txn", "one")
    client.put("txn", "two")
    compare = [ops.version("txn") == 2, ops.value("txn") > "one", ops.create("absent") == 0]
    good = client.transaction(compare, [ops.get("txn"), ops.put("made", "by txn")], [])
    bad = client.transaction([ops.value("txn") == "one"], [], [ops.delete("made", prev_kv=True)])
    tell("txn", good[0], [[value for value, _ in kvs] for kvs in good[1][:1]], bad[0])
    nested = ops.txn([ops.mod("txn") > 0], [ops.put("nested", "x")], [])
    tell("txn nested", client.transaction([], [nested], [])[0], client.get("nested")[0])
    twice = [ops.put("same", "1"), ops.put("same", "2")]
    tell("txn refused", refused(client.transaction, [], twice, []))


def lease(client):
    lease = client.lease(30)
    client.put("leased", "x", lease=lease)
    tell("lease", lease.ttl, lease.granted_ttl, list(lease.keys))
    tell("lease kept", [answer.TTL for answer in lease.refresh()])
    lease.revoke()
    tell("lease revoked", client.get("leased"), [answer.TTL for answer in lease.refresh()])
    tell("lease unknown", lease.remaining_ttl, refused(client.put, "leased", "x", lease=lease))
    events, cancel = client.watch("expires")
    client.put("expires", "x", lease=client.lease(1))
    tell("lease expired", [type(next(events)).__name__ for _ in range(2)])
    cancel()


def lock(client):
    with client.lock("name", ttl=30) as held:
        other = client.lock("name", ttl=30)
        tell("lock", held.is_acquired(), other.is_acquired(), len(held.refresh()), other.release())
    tell("lock released", held.is_acquired(), other.acquire(), other.is_acquired(), other.release())


def watch(client):
    """This client does not open a watch again by itself: its user goes on behind what was seen."""
    kept = client.lease(60)
    client.put("watched/leased", "x", lease=kept)
    responses, _ = client.watch_prefix_response("watched/", prev_kv=True)
    client.put("watched/a", "1")
    seen = next(responses)
    restart()
    tell("watch cut", refused(next, responses))
    until(client.put, "watched/a", "2")
    client.delete("watched/leased")
    first, events = seen.header.revision + 1, seen.events
    from_there = {"start_revision": first, "prev_kv": True}
    again, cancel = until(client.watch_prefix_response, "watched/", **from_there)
    while len(events) < 3:
        events += next(again).events
    tell("watch", [(type(e).__name__, e.key, e.value, e._event.prev_kv.value) for e in events])
    tell("watch lease", kept.granted_ttl, list(kept.keys))
    cancel()
    client.compact(first)
    old, _ = client.watch_response("watched/a", start_revision=1)
    tell("watch compacted", refused(next, old))


def auth(plain):
    stub = rpc.AuthStub(plain.channel)
    for role in "root", "writer":
        stub.RoleAdd(rpc.AuthRoleAddRequest(name=role))
    allowed = {"permType": "READWRITE", "key": b"mine/", "range_end": b"mine0"}
    stub.RoleGrantPermission(rpc.AuthRoleGrantPermissionRequest(name="writer", perm=allowed))
    for user, role in ("root", "root"), ("alice", "writer"):
        stub.UserAdd(rpc.AuthUserAddRequest(name=user, password=PASSWORD))
        stub.UserGrantRole(rpc.AuthUserGrantRoleRequest(user=user, role=role))
    stub.AuthEnable(rpc.AuthEnableRequest())
    tell("auth", refused(plain.get, "mine/a"))
    tell("auth wrong password", refused(secure, user="alice", password="wrong"))
    alice = secure(user="alice", password=PASSWORD)
    alice.put("mine/a", "by alice")
    events, cancel = alice.watch("mine/a")
    alice.put("mine/a", "again")
    tell("auth alice", alice.get("mine/a")[0], next(events).value)
    cancel()
    tell("auth denied", refused(alice.put, "yours", "x"), refused(alice.get_prefix, "m"))
    # The certificate's common name is alice, too.
    tell("auth certificate", secure().get("mine/a")[0], refused(secure().get, "yours"))
    restart()
    # Tokens are lost with the server, and this client does not ask for another.
    tell("auth token lost", refused(until_reached, alice))
    root = secure(user="root", password=PASSWORD)
    rpc.AuthStub(root.channel).AuthDisable(rpc.AuthDisableRequest(), metadata=root.metadata)
    tell("auth disabled", until(plain.get, "mine/a")[0], refused(secure, user="alice", password="wrong"))


def until_reached(client):
    while True:
        try:
            return client.get("mine/a")
        except etcd3.exceptions.ConnectionFailedError:
            pass


def secure(**who):
    own = {"cert_key": pki("client-key.pem"), "cert_cert": pki("client.pem")}
    return etcd3.client("127.0.0.1", HTTPS, ca_cert=pki("ca.pem"), **own, **who)


def tls():
    client = etcd3.client("127.0.0.1", HTTPS, ca_cert=pki("ca.pem"), timeout=5)
    tell("tls without a certificate", refused(client.get, "a"))
    with secure() as client:
        client.put("tls", "x")
        tell("tls", client.get("tls")[0])


def main():
    with etcd3.client("127.0.0.1", HTTP) as client:
        for part in kv, txn, lease, lock, watch:
            part(client)
        tls()
        auth(client)


main()
