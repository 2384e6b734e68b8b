// Command clients runs etcd's own Go client and the packages that come with it against a server: its
// ports for plain text and for TLS and the folder of certificates are the arguments. It runs one
// scenario after the other, prints what each came to, and exits 1 at the first broken promise.
//
// Whoever runs it restarts the server when asked: the line "restart" on stdout asks, a line on
// stdin says that the server is back.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// A scenario gets a client of its own; what it returns is what went wrong.
type scenario struct {
	name string
	run  func(ctx context.Context, client *clientv3.Client) error
}

var scenarios = []scenario{
	{"session", sessionScenario},
	{"lock", lockScenario},
	{"election", electionScenario},
	{"stm", stmScenario},
	{"paging", pagingScenario},
	{"watch with reconnect", watchScenario},
	{"session over a restart", sessionRestartScenario},
	{"namespace", namespaceScenario},
	{"mirror", mirrorScenario},
	{"ordering", orderingScenario},
	{"leasing", leasingScenario},
	{"tls", tlsScenario},
	{"auth", authScenario},
}

const scenarioLimit = 2 * time.Minute

var tlsPort, pki string

func main() {
	if len(os.Args) != 4 {
		fmt.Println("usage: clients PORT TLS-PORT CERTIFICATES")
		os.Exit(2)
	}
	endpoint := "127.0.0.1:" + os.Args[1]
	tlsPort, pki = os.Args[2], os.Args[3]
	for _, s := range scenarios {
		if err := runOne(s, endpoint); err != nil {
			fmt.Printf("FAILED %s: %v\n", s.name, err)
			os.Exit(1)
		}
		fmt.Printf("ok %s\n", s.name)
	}
}

func runOne(s scenario, endpoint string) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   []string{endpoint},
		DialTimeout: 10 * time.Second,
		Logger:      zap.NewNop(),
	})
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), scenarioLimit)
	defer cancel()
	return s.run(ctx, client)
}

var stdin = bufio.NewReader(os.Stdin)

// restartServer returns when the server has been stopped and serves again.
func restartServer() error {
	fmt.Println("restart")
	_, err := stdin.ReadString('\n')
	return err
}

// putUntilAcknowledged repeats a put that failed because the server was away.
func putUntilAcknowledged(ctx context.Context, client *clientv3.Client, key, value string) (int64, error) {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		response, err := client.Put(try, key, value)
		cancel()
		if err == nil {
			return response.Header.Revision, nil
		}
		if ctx.Err() != nil {
			return 0, err
		}
	}
}

func expect(condition bool, format string, values ...any) error {
	if condition {
		return nil
	}
	return fmt.Errorf(format, values...)
}
