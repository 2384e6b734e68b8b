package steletest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// server is the address in a kubeconfig.
func server(t *testing.T, kubeconfig string) string {
	t.Helper()
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "server: ")
	if !found {
		t.Fatalf("no server in %s", text)
	}
	url, _, _ := strings.Cut(rest, "\n")
	return strings.Trim(strings.TrimPrefix(strings.TrimSpace(url), "https://"), `"`)
}

func TestAClusterServesAndLeavesNothingBehind(t *testing.T) {
	cluster, err := Start()
	if err != nil {
		t.Fatal(err)
	}
	address := server(t, cluster.Kubeconfig)
	connection, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = connection.Close()
	log := cluster.log.Name()
	if err := cluster.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Stop(); err != nil {
		t.Fatalf("the second time: %v", err)
	}
	for _, left := range []string{filepath.Dir(cluster.Kubeconfig), log} {
		if _, err := os.Stat(left); !os.IsNotExist(err) {
			t.Errorf("%s is still there", left)
		}
	}
	if _, err := net.Dial("tcp", address); err == nil {
		t.Error("it still serves")
	}
}

func TestTheClusterOfATestEndsWithIt(t *testing.T) {
	var kubeconfig string
	t.Run("inner", func(t *testing.T) { kubeconfig = ForTest(t, "--scheduler").Kubeconfig })
	if _, err := os.Stat(kubeconfig); !os.IsNotExist(err) {
		t.Errorf("%s is still there", kubeconfig)
	}
}

func TestAClusterThatCannotStartSaysWhy(t *testing.T) {
	_, err := Start("--controllers=workloads")
	if err == nil || !strings.Contains(err.Error(), `"workloads" is not in the list of known controllers`) {
		t.Errorf("%v", err)
	}
	t.Setenv("STELE_KUBE", "/nowhere/stele-kube")
	_, err = Start()
	if err == nil || !strings.Contains(err.Error(), "STELE_KUBE") {
		t.Errorf("%v", err)
	}
}
