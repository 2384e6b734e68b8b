package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// A session's keys live as long as the session: gone on close, and gone when its lease is revoked
// by somebody else, which the session notices.
func sessionScenario(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	if err != nil {
		return err
	}
	for _, key := range []string{"session/b", "session/a"} {
		if _, err := client.Put(ctx, key, "alive", clientv3.WithLease(session.Lease())); err != nil {
			return err
		}
	}
	ttl, err := client.TimeToLive(ctx, session.Lease(), clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	if err := expect(ttl.GrantedTTL == 5 && ttl.TTL <= 5 && len(ttl.Keys) == 2,
		"unexpected time to live: %+v", ttl); err != nil {
		return err
	}
	watch := client.Watch(ctx, "session/", clientv3.WithPrefix(), clientv3.WithRev(ttl.Revision+1))
	if err := session.Close(); err != nil {
		return err
	}
	response := <-watch
	deleted := ""
	for _, event := range response.Events {
		deleted += fmt.Sprintf("%v %s@%d;", event.Type, event.Kv.Key, event.Kv.ModRevision-ttl.Revision)
	}
	if err := expect(deleted == "DELETE session/a@1;DELETE session/b@1;",
		"closing a session gave the events %q", deleted); err != nil {
		return err
	}
	if err := revokedSessionEnds(ctx, client); err != nil {
		return err
	}
	return leaseExpires(ctx, client)
}

func leaseExpires(ctx context.Context, client *clientv3.Client) error {
	events := client.Watch(ctx, "expires")
	lease, err := client.Grant(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := client.Put(ctx, "expires", "x", clientv3.WithLease(lease.ID)); err != nil {
		return err
	}
	seen, err := collect(ctx, events, 2)
	if err != nil {
		return err
	}
	_, late := client.KeepAliveOnce(ctx, lease.ID)
	fmt.Printf("lease expired: %s; %v\n", seen, late)
	return nil
}

func revokedSessionEnds(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(2))
	if err != nil {
		return err
	}
	defer session.Orphan()
	if _, err := client.Revoke(ctx, session.Lease()); err != nil {
		return err
	}
	select {
	case <-session.Done():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the session did not notice that its lease was revoked")
	}
}

// A lease outlives a restart of the server, and its keep-alive stream finds the server again.
func sessionRestartScenario(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(30))
	if err != nil {
		return err
	}
	if _, err := client.Put(ctx, "session/kept", "1", clientv3.WithLease(session.Lease())); err != nil {
		return err
	}
	if err := restartServer(); err != nil {
		return err
	}
	alive, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	answer, err := client.KeepAliveOnce(alive, session.Lease())
	if err != nil {
		return fmt.Errorf("keep-alive after the restart: %w", err)
	}
	if err := expect(answer.TTL == 30, "renewed to %d seconds", answer.TTL); err != nil {
		return err
	}
	select {
	case <-session.Done():
		return fmt.Errorf("the session ended though its lease lives")
	default:
	}
	found, err := client.Get(ctx, "session/kept")
	if err != nil {
		return err
	}
	if err := expect(found.Count == 1 && clientv3.LeaseID(found.Kvs[0].Lease) == session.Lease(),
		"after the restart the key reads %+v", found.Kvs); err != nil {
		return err
	}
	return session.Close()
}
