package main

import (
	"context"
	"fmt"

	mvccpb "go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/leasing"
	"go.etcd.io/etcd/client/v3/mirror"
	"go.etcd.io/etcd/client/v3/namespace"
	"go.etcd.io/etcd/client/v3/ordering"
)

// Keys, watches and leases as somebody sees them to whom a prefix is all there is.
func namespaceScenario(ctx context.Context, client *clientv3.Client) error {
	kv := namespace.NewKV(client.KV, "space/")
	lease := namespace.NewLease(client.Lease, "space/")
	events := namespace.NewWatcher(client.Watcher, "space/").Watch(ctx, "a", clientv3.WithPrefix(), clientv3.WithPrevKV())
	granted, err := lease.Grant(ctx, 30)
	if err != nil {
		return err
	}
	if _, err := kv.Put(ctx, "a", "1", clientv3.WithLease(granted.ID)); err != nil {
		return err
	}
	if _, err := client.Put(ctx, "outside", "1"); err != nil {
		return err
	}
	done, err := kv.Txn(ctx).If(clientv3.Compare(clientv3.Value("a"), "=", "1"), clientv3.Compare(clientv3.CreateRevision("outside"), "=", 0)).
		Then(clientv3.OpPut("a/b", "2"), clientv3.OpGet("", clientv3.WithFromKey())).Commit()
	if err != nil {
		return err
	}
	about, err := lease.TimeToLive(ctx, granted.ID, clientv3.WithAttachedKeys())
	if err != nil {
		return err
	}
	inner := done.Responses[1].GetResponseRange().Kvs
	whole, err := client.Get(ctx, "space/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	fmt.Printf("namespace: %v %s; whole: %s; leased: %s\n", done.Succeeded, pairs(inner), pairs(whole.Kvs), about.Keys)
	removed, err := kv.Delete(ctx, "", clientv3.WithFromKey(), clientv3.WithPrevKV())
	if err != nil {
		return err
	}
	seen, err := collect(ctx, events, 4)
	fmt.Printf("namespace: removed %s; watched %s\n", pairs(removed.PrevKvs), seen)
	return err
}

// A copy is kept of what is under a prefix: what there was, page by page, and what comes.
func mirrorScenario(ctx context.Context, client *clientv3.Client) error {
	// More than the syncer asks for at once.
	for hundred := range 11 {
		var puts []clientv3.Op
		for i := range 100 {
			puts = append(puts, clientv3.OpPut(fmt.Sprintf("mirrored/%02d%02d", hundred, i), "old"))
		}
		if _, err := client.Txn(ctx).Then(puts...).Commit(); err != nil {
			return err
		}
	}
	syncer := mirror.NewSyncer(client, "mirrored/", 0)
	pages, failures := syncer.SyncBase(ctx)
	copied, first := 0, ""
	for page := range pages {
		if first == "" {
			first = string(page.Kvs[0].Key)
		}
		copied += len(page.Kvs)
	}
	if err := <-failures; err != nil {
		return err
	}
	updates := syncer.SyncUpdates(ctx)
	if _, err := client.Put(ctx, "mirrored/0000", "new"); err != nil {
		return err
	}
	if _, err := client.Delete(ctx, "mirrored/1", clientv3.WithPrefix()); err != nil {
		return err
	}
	seen, err := collect(ctx, updates, 101)
	if err != nil {
		return err
	}
	fmt.Printf("mirror: %d from %s; %s to %s\n", copied, first, seen[0], seen[100])
	return nil
}

// Answers never go back to an older revision, over a restart neither.
func orderingScenario(ctx context.Context, client *clientv3.Client) error {
	ordered := ordering.NewKV(client.KV, func(clientv3.Op, clientv3.OpResponse, int64) error {
		return fmt.Errorf("an older revision was answered")
	})
	if _, err := ordered.Put(ctx, "ordered", "1"); err != nil {
		return err
	}
	if err := restartServer(); err != nil {
		return err
	}
	for i := range 4 {
		options := []clientv3.OpOption{}
		if i%2 == 1 {
			options = append(options, clientv3.WithSerializable())
		}
		found, err := ordered.Get(ctx, "ordered", options...)
		if err != nil {
			return err
		}
		done, err := ordered.Txn(ctx).Then(clientv3.OpPut("ordered", fmt.Sprint(i+2))).Commit()
		if err != nil {
			return err
		}
		fmt.Printf("ordering: %s %v\n", pairs(found.Kvs), done.Succeeded)
	}
	return nil
}

// Two readers own keys to cache them, and give them back when the other writes.
func leasingScenario(ctx context.Context, client *clientv3.Client) error {
	var readers [2]clientv3.KV
	for i := range readers {
		kv, closed, err := leasing.NewKV(client, "leasing/")
		if err != nil {
			return err
		}
		defer closed()
		readers[i] = kv
	}
	if _, err := client.Put(ctx, "fresh", "x"); err != nil {
		return err
	}
	if _, err := readers[0].Get(ctx, "fresh"); err != nil {
		return err
	}
	owned, err := client.Get(ctx, "leasing/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	fmt.Printf("leasing: owned %s\n", pairs(owned.Kvs))
	for i := range 6 {
		writer, reader := readers[i%2], readers[(i+1)%2]
		if _, err := writer.Put(ctx, "cached", fmt.Sprint(i)); err != nil {
			return err
		}
		// The second time from what the reader keeps.
		for range 2 {
			found, err := reader.Get(ctx, "cached")
			if err != nil {
				return err
			}
			fmt.Printf("leasing: %s\n", pairs(found.Kvs))
		}
	}
	done, err := readers[0].Txn(ctx).If(clientv3.Compare(clientv3.Value("cached"), "=", "5")).
		Then(clientv3.OpDelete("cached"), clientv3.OpPut("other", "x")).Commit()
	if err != nil {
		return err
	}
	gone, err := readers[1].Get(ctx, "cached")
	if err != nil {
		return err
	}
	fmt.Printf("leasing: %v, then %d\n", done.Succeeded, gone.Count)
	return nil
}

func collect(ctx context.Context, events clientv3.WatchChan, count int) ([]string, error) {
	var seen []string
	for len(seen) < count {
		select {
		case response := <-events:
			if err := response.Err(); err != nil {
				return seen, err
			}
			for _, event := range response.Events {
				before := ""
				if event.PrevKv != nil {
					before = " before: " + string(event.PrevKv.Value)
				}
				seen = append(seen, fmt.Sprintf("%s %s=%s%s", event.Type, event.Kv.Key, event.Kv.Value, before))
			}
		case <-ctx.Done():
			return seen, ctx.Err()
		}
	}
	return seen, nil
}

func pairs(kvs []*mvccpb.KeyValue) []string {
	var pairs []string
	for _, kv := range kvs {
		pairs = append(pairs, fmt.Sprintf("%s=%s", kv.Key, kv.Value))
	}
	return pairs
}
