package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	lockers      = 6
	roundsLocked = 8
)

// A counter is read and written back in two steps by several workers, so only mutual exclusion
// keeps it whole.
func lockScenario(ctx context.Context, client *clientv3.Client) error {
	if _, err := client.Put(ctx, "counter", "0"); err != nil {
		return err
	}
	var group sync.WaitGroup
	failures := make(chan error, lockers)
	for range lockers {
		group.Go(func() { failures <- countUnderLock(ctx, client) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	found, err := client.Get(ctx, "counter")
	if err != nil {
		return err
	}
	value := string(found.Kvs[0].Value)
	if err := expect(value == strconv.Itoa(lockers*roundsLocked), "the counter reads %s", value); err != nil {
		return err
	}
	return tryLockFailsWhileHeld(ctx, client)
}

func countUnderLock(ctx context.Context, client *clientv3.Client) error {
	session, err := concurrency.NewSession(client, concurrency.WithTTL(10))
	if err != nil {
		return err
	}
	defer session.Close()
	mutex := concurrency.NewMutex(session, "lock/counter")
	for range roundsLocked {
		if err := mutex.Lock(ctx); err != nil {
			return err
		}
		found, err := client.Get(ctx, "counter")
		if err != nil {
			return err
		}
		value, err := strconv.Atoi(string(found.Kvs[0].Value))
		if err != nil {
			return err
		}
		// The put counts only while the lock is still held.
		done, err := client.Txn(ctx).If(mutex.IsOwner()).
			Then(clientv3.OpPut("counter", strconv.Itoa(value+1))).Commit()
		if err != nil {
			return err
		}
		if !done.Succeeded {
			return fmt.Errorf("the lock was lost while its session lived")
		}
		if err := mutex.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func tryLockFailsWhileHeld(ctx context.Context, client *clientv3.Client) error {
	var sessions [2]*concurrency.Session
	for i := range sessions {
		session, err := concurrency.NewSession(client)
		if err != nil {
			return err
		}
		defer session.Close()
		sessions[i] = session
	}
	held := concurrency.NewMutex(sessions[0], "lock/held")
	wanted := concurrency.NewMutex(sessions[1], "lock/held")
	if err := held.Lock(ctx); err != nil {
		return err
	}
	if err := wanted.TryLock(ctx); !errors.Is(err, concurrency.ErrLocked) {
		return fmt.Errorf("a held lock answered TryLock with %v", err)
	}
	if err := held.Unlock(ctx); err != nil {
		return err
	}
	return wanted.TryLock(ctx)
}
