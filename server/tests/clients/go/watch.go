package main

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const watchedPuts = 60

// A watch lives through two restarts of the server and misses nothing: the client opens it anew
// behind the last revision it saw.
func watchScenario(ctx context.Context, client *clientv3.Client) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	events := client.Watch(watching, "watched/", clientv3.WithPrefix(), clientv3.WithPrevKV())
	// Watches of one client share a stream: once the second is open, the first is.
	first := client.Watch(watching, "watched/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if created := <-first; !created.Created {
		return fmt.Errorf("the watch was answered with %+v", created)
	}
	written := make([]int64, 0, watchedPuts)
	for i := range watchedPuts {
		if i == watchedPuts/3 || i == 2*watchedPuts/3 {
			if err := restartServer(); err != nil {
				return err
			}
		}
		revision, err := putUntilAcknowledged(ctx, client, fmt.Sprintf("watched/%d", i%7), fmt.Sprint(i))
		if err != nil {
			return err
		}
		written = append(written, revision)
	}
	return compareHistory(ctx, client, events, written)
}

// compareHistory reads the watch up to the last put and holds it against the acknowledged puts. A
// put repeated because its answer was lost shows twice in the history, never less than once.
func compareHistory(ctx context.Context, client *clientv3.Client, events clientv3.WatchChan, written []int64) error {
	last, next, previous := written[len(written)-1], 0, int64(0)
	values := map[string]string{}
	for previous < last {
		response, open := <-events
		if !open || response.Err() != nil {
			return fmt.Errorf("the watch ended at revision %d of %d: %v", previous, last, response.Err())
		}
		for _, event := range response.Events {
			key, revision := string(event.Kv.Key), event.Kv.ModRevision
			if err := expect(revision > previous, "revision %d came after %d", revision, previous); err != nil {
				return err
			}
			before := ""
			if event.PrevKv != nil {
				before = string(event.PrevKv.Value)
			}
			if err := expect(before == values[key], "%s held %q, its event says %q", key, values[key], before); err != nil {
				return err
			}
			values[key], previous = string(event.Kv.Value), revision
			if revision == written[next] {
				next++
			} else if err := expect(revision < written[next], "revision %d is missing", written[next]); err != nil {
				return err
			}
		}
	}
	if err := expect(next == len(written), "%d of %d puts were seen", next, len(written)); err != nil {
		return err
	}
	return client.RequestProgress(ctx)
}
