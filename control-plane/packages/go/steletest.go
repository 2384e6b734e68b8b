// Package steletest starts clusters for the tests of operators: each is one process of
// `stele-kube test`, which keeps everything in a temporary directory.
package steletest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a cluster may take to stop before it is killed.
const patience = 10 * time.Second

// Cluster is a running cluster. It also ends when this process ends.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig with all rights.
	Kubeconfig string

	process *exec.Cmd
	log     *os.File
	ended   chan error
	stopped bool
}

// Start starts a cluster with these flags of `stele-kube test`, and returns when its API answers.
// The program is the one that the variable STELE_KUBE names, or `stele-kube` in PATH.
func Start(flags ...string) (*Cluster, error) {
	program := os.Getenv("STELE_KUBE")
	if program == "" {
		program = "stele-kube"
	}
	log, err := os.CreateTemp("", "stele-kube-*.log")
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{
		process: exec.Command(program, append([]string{"test"}, flags...)...),
		log:     log,
		ended:   make(chan error, 1),
	}
	cluster.process.Stderr = log
	out, err := cluster.process.StdoutPipe()
	if err == nil {
		err = cluster.process.Start()
	}
	if err != nil {
		cluster.forgetLog()
		return nil, fmt.Errorf("cannot run %s (set STELE_KUBE to its path): %w", program, err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	// Wait closes the pipe: only after the line.
	go func() { cluster.ended <- cluster.process.Wait() }()
	if err != nil {
		said := cluster.Log()
		_ = cluster.Stop()
		return nil, fmt.Errorf("%s test ended before its API answered: %s", program, said)
	}
	cluster.Kubeconfig = strings.TrimSpace(line)
	return cluster, nil
}

// ForTest starts a cluster that stops at the end of the test. Without one the test fails at once.
func ForTest(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	cluster, err := Start(flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(cluster.Log())
		}
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// Log returns what the cluster has logged so far.
func (c *Cluster) Log() string {
	said, err := os.ReadFile(c.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(said)
}

// Stop ends the cluster and removes all that it kept. A second call does nothing.
func (c *Cluster) Stop() error {
	if c.stopped {
		return nil
	}
	c.stopped = true
	defer c.forgetLog()
	process := c.process.Process
	err := process.Signal(syscall.SIGTERM)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case err = <-c.ended:
		return err
	case <-time.After(patience):
		err = process.Kill()
		<-c.ended
		return errors.Join(errors.New("stele-kube did not stop by itself"), err)
	}
}

func (c *Cluster) forgetLog() {
	_ = c.log.Close()
	_ = os.Remove(c.log.Name())
}
