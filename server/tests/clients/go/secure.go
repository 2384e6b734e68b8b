package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const password = "a secret"

// secure opens a client over TLS; without a name it shows its certificate alone.
func secure(certificate bool, name, password string) (*clientv3.Client, error) {
	info := transport.TLSInfo{TrustedCAFile: filepath.Join(pki, "ca.pem")}
	if certificate {
		info.CertFile, info.KeyFile = filepath.Join(pki, "client.pem"), filepath.Join(pki, "client-key.pem")
	}
	config, err := info.ClientConfig()
	if err != nil {
		return nil, err
	}
	return clientv3.New(clientv3.Config{
		Endpoints:   []string{"https://127.0.0.1:" + tlsPort},
		DialTimeout: 10 * time.Second,
		TLS:         config,
		Username:    name,
		Password:    password,
		Logger:      zap.NewNop(),
	})
}

func tlsScenario(ctx context.Context, _ *clientv3.Client) error {
	nobody, err := secure(false, "", "")
	if err != nil {
		return err
	}
	defer nobody.Close()
	try, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	if _, err := nobody.Get(try, "a"); err == nil {
		return fmt.Errorf("a client without a certificate was let in")
	}
	client, err := secure(true, "", "")
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := client.Put(ctx, "tls", "x"); err != nil {
		return err
	}
	found, err := client.Get(ctx, "tls")
	fmt.Printf("tls: %s\n", pairs(found.Kvs))
	return err
}

// Users, a role that may do a little, what is denied to it, and tokens that are lost.
func authScenario(ctx context.Context, plain *clientv3.Client) error {
	for _, role := range []string{"root", "writer"} {
		if _, err := plain.RoleAdd(ctx, role); err != nil {
			return err
		}
	}
	allowed := clientv3.PermissionType(clientv3.PermReadWrite)
	if _, err := plain.RoleGrantPermission(ctx, "writer", "mine/", clientv3.GetPrefixRangeEnd("mine/"), allowed); err != nil {
		return err
	}
	for _, user := range [][2]string{{"root", "root"}, {"alice", "writer"}} {
		if _, err := plain.UserAdd(ctx, user[0], password); err != nil {
			return err
		}
		if _, err := plain.UserGrantRole(ctx, user[0], user[1]); err != nil {
			return err
		}
	}
	_, again := plain.RoleAdd(ctx, "writer")
	_, unknown := plain.UserGet(ctx, "bob")
	fmt.Printf("auth again: %v; %v\n", again, unknown)
	if _, err := plain.AuthEnable(ctx); err != nil {
		return err
	}
	_, refused := plain.Get(ctx, "mine/a")
	_, wrong := secure(true, "alice", "wrong")
	fmt.Printf("auth: %v; wrong password: %v\n", refused, wrong)
	if err := aliceScenario(ctx); err != nil {
		return err
	}
	root, err := secure(true, "root", password)
	if err != nil {
		return err
	}
	defer root.Close()
	if _, err := root.AuthDisable(ctx); err != nil {
		return err
	}
	// A password that nobody asks for does no harm.
	late, err := secure(true, "alice", "wrong")
	if err != nil {
		return err
	}
	defer late.Close()
	found, err := late.Get(ctx, "mine/a")
	fmt.Printf("auth disabled: %s\n", pairs(found.Kvs))
	return err
}

func aliceScenario(ctx context.Context) error {
	alice, err := secure(true, "alice", password)
	if err != nil {
		return err
	}
	defer alice.Close()
	// The certificate's common name is alice, too.
	nameless, err := secure(true, "", "")
	if err != nil {
		return err
	}
	defer nameless.Close()
	events := alice.Watch(ctx, "mine/", clientv3.WithPrefix())
	if _, err := alice.Put(ctx, "mine/a", "by alice"); err != nil {
		return err
	}
	seen, err := collect(ctx, events, 1)
	if err != nil {
		return err
	}
	_, put := alice.Put(ctx, "yours", "x")
	_, list := alice.Get(ctx, "", clientv3.WithFromKey())
	_, enable := alice.AuthDisable(ctx)
	watch := <-alice.Watch(ctx, "yours")
	_, named := nameless.Get(ctx, "yours")
	fmt.Printf("auth alice: %s; denied: %v; %v; %v; %v; %v\n", seen, put, list, enable, watch.Err(), named)
	found, err := nameless.Get(ctx, "mine/a")
	if err != nil {
		return err
	}
	fmt.Printf("auth certificate: %s\n", pairs(found.Kvs))
	if err := restartServer(); err != nil {
		return err
	}
	// Tokens are lost with the server; the client asks for another by itself, its watch as well.
	if _, err := putUntilAcknowledged(ctx, alice, "mine/a", "again"); err != nil {
		return err
	}
	seen, err = collect(ctx, events, 1)
	fmt.Printf("auth token lost: %s\n", seen)
	return err
}
