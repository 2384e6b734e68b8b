package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	accounts    = 5
	openingSum  = 100
	movers      = 4
	movesEach   = 25
	pagingKeys  = 95
	pagingLimit = 10
)

func account(i int) string { return fmt.Sprintf("account/%d", i) }

// Money moves between accounts in software transactions, at every isolation level that forbids
// losing any; the sum stays what it was.
func stmScenario(ctx context.Context, client *clientv3.Client) error {
	for i := range accounts {
		if _, err := client.Put(ctx, account(i), strconv.Itoa(openingSum)); err != nil {
			return err
		}
	}
	levels := []concurrency.Isolation{
		concurrency.SerializableSnapshot, concurrency.Serializable, concurrency.RepeatableReads,
	}
	var group sync.WaitGroup
	failures := make(chan error, movers)
	for i := range movers {
		group.Go(func() { failures <- moveMoney(ctx, client, uint64(i), levels[i%len(levels)]) })
	}
	group.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	found, err := client.Get(ctx, "account/", clientv3.WithPrefix())
	if err != nil {
		return err
	}
	sum := 0
	for _, kv := range found.Kvs {
		value, err := strconv.Atoi(string(kv.Value))
		if err != nil {
			return err
		}
		sum += value
	}
	return expect(sum == accounts*openingSum, "%d were left of %d", sum, accounts*openingSum)
}

func moveMoney(ctx context.Context, client *clientv3.Client, seed uint64, level concurrency.Isolation) error {
	random := rand.New(rand.NewPCG(seed, 1))
	for range movesEach {
		from, to := account(random.IntN(accounts)), account(random.IntN(accounts))
		if from == to {
			continue
		}
		_, err := concurrency.NewSTM(client, func(stm concurrency.STM) error {
			source, err := strconv.Atoi(stm.Get(from))
			if err != nil {
				return err
			}
			target, err := strconv.Atoi(stm.Get(to))
			if err != nil {
				return err
			}
			amount := 1 + source/10
			stm.Put(from, strconv.Itoa(source-amount))
			stm.Put(to, strconv.Itoa(target+amount))
			return nil
		}, concurrency.WithIsolation(level), concurrency.WithAbortContext(ctx))
		if err != nil {
			return err
		}
	}
	return nil
}

// A list is read page by page at one revision while keys are added behind its back, as
// kube-apiserver reads its lists.
func pagingScenario(ctx context.Context, client *clientv3.Client) error {
	for i := range pagingKeys {
		if _, err := client.Put(ctx, fmt.Sprintf("page/%03d", i), "first"); err != nil {
			return err
		}
	}
	start, end := "page/", clientv3.GetPrefixRangeEnd("page/")
	var revision int64
	read := 0
	for more := true; more; {
		page, err := client.Get(ctx, start, clientv3.WithRange(end),
			clientv3.WithLimit(pagingLimit), clientv3.WithRev(revision))
		if err != nil {
			return err
		}
		if revision == 0 {
			revision = page.Header.Revision
		}
		if err := expect(page.Count == int64(pagingKeys-read), "page at %d: count %d", read, page.Count); err != nil {
			return err
		}
		for _, kv := range page.Kvs {
			if err := expect(string(kv.Key) == fmt.Sprintf("page/%03d", read) && string(kv.Value) == "first",
				"place %d holds %s = %s", read, kv.Key, kv.Value); err != nil {
				return err
			}
			read++
		}
		start, more = string(page.Kvs[len(page.Kvs)-1].Key)+"\x00", page.More
		if _, err := client.Put(ctx, fmt.Sprintf("page/%03d", read), "second"); err != nil {
			return err
		}
	}
	return expect(read == pagingKeys, "%d of %d keys were listed", read, pagingKeys)
}
