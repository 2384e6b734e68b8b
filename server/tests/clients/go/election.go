package main

import (
	"context"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Three candidates lead one after the other; an observer sees every one of them, in order.
func electionScenario(ctx context.Context, client *clientv3.Client) error {
	const candidates = 3
	observer, err := concurrency.NewSession(client)
	if err != nil {
		return err
	}
	defer observer.Close()
	observing, stop := context.WithCancel(ctx)
	defer stop()
	seen := concurrency.NewElection(observer, "election").Observe(observing)

	elected := make(chan string)
	resign := make(chan struct{})
	failures := make(chan error, candidates)
	for i := range candidates {
		go func() { failures <- campaign(ctx, client, fmt.Sprintf("candidate %d", i), elected, resign) }()
	}
	var leaders []string
	for finished := 0; finished < candidates; {
		select {
		case leader := <-elected:
			leaders = append(leaders, leader)
			if err := observed(ctx, seen, leader+" proclaims"); err != nil {
				return err
			}
			resign <- struct{}{}
		case err := <-failures:
			if err != nil {
				return fmt.Errorf("a candidate gave up: %w", err)
			}
			finished++
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slices.Sort(leaders)
	if err := expect(len(slices.Compact(leaders)) == candidates, "the leaders were %v", leaders); err != nil {
		return err
	}
	_, err = concurrency.NewElection(observer, "election").Leader(ctx)
	return expect(err == concurrency.ErrElectionNoLeader, "with nobody left the leader is: %v", err)
}

func campaign(ctx context.Context, client *clientv3.Client, name string, elected chan<- string, resign <-chan struct{}) error {
	session, err := concurrency.NewSession(client)
	if err != nil {
		return err
	}
	defer session.Close()
	election := concurrency.NewElection(session, "election")
	if err := election.Campaign(ctx, name); err != nil {
		return err
	}
	if err := election.Proclaim(ctx, name+" proclaims"); err != nil {
		return err
	}
	elected <- name
	<-resign
	return election.Resign(ctx)
}

// observed waits until the observer has seen the value; values before it are of the same reign.
func observed(ctx context.Context, seen <-chan *clientv3.GetResponse, value string) error {
	for {
		select {
		case response, open := <-seen:
			if !open {
				return fmt.Errorf("the observation ended before %q", value)
			}
			if string(response.Kvs[0].Value) == value {
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("%q was never observed", value)
		}
	}
}
