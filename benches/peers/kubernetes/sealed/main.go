// Command sealed is Kubernetes' own encryption at rest, to check another implementation against.
//
//	sealed values FILE: reads lines `seal|open RESOURCE KEY BASE64` and seals or opens each value
//	                    as an EncryptionConfiguration file says. Prints `BASE64`, with ` stale`
//	                    behind it if a write would seal the value otherwise, or `error: TEXT`.
//	sealed plugin SOCKET KEYS: a KMS v2 plugin. The last line of the file KEYS is the id of the
//	                    key that encrypts, or empty: then it is not healthy. A key decrypts as
//	                    long as the file has it.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/klog/v2"
	"k8s.io/kms/pkg/service"
)

func main() {
	log.SetFlags(0)
	// What cannot be opened is part of what is asked here.
	klog.SetLogger(logr.Discard())
	switch {
	case len(os.Args) == 3 && os.Args[1] == "values":
		values(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "plugin":
		serve(os.Args[2], os.Args[3])
	default:
		log.Fatal("usage: sealed values FILE | sealed plugin SOCKET KEYS")
	}
}

func values(file string) {
	ctx := context.Background()
	config, err := encryptionconfig.LoadEncryptionConfig(ctx, file, false, "sealed")
	if err != nil {
		fmt.Printf("refused: %v\n", err)
		return
	}
	fmt.Println("loaded")
	transformers := encryptionconfig.StaticTransformers(config.Transformers)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		if len(words) != 4 {
			log.Fatalf("no such request: %q", lines.Text())
		}
		data, err := base64.StdEncoding.DecodeString(words[3])
		check(err)
		resource := schema.ParseGroupResource(words[1])
		transformer := transformers.TransformerForResource(resource)
		beside := value.DefaultContext(words[2])
		var out []byte
		stale := false
		if words[0] == "seal" {
			out, err = transformer.TransformToStorage(ctx, data, beside)
		} else {
			out, stale, err = transformer.TransformFromStorage(ctx, data, beside)
		}
		suffix := ""
		if stale {
			suffix = " stale"
		}
		if err != nil {
			fmt.Printf("error: %s\n", strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println(base64.StdEncoding.EncodeToString(out) + suffix)
		}
	}
	check(lines.Err())
}

// plugin "encrypts" with the id of a key: what matters here is the contract, not the secrecy.
type plugin struct {
	keys string
}

func (p *plugin) known() ([]string, error) {
	text, err := os.ReadFile(p.keys)
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}

func (p *plugin) Status(context.Context) (*service.StatusResponse, error) {
	known, err := p.known()
	if err != nil {
		return nil, err
	}
	current := known[len(known)-1]
	if current == "" {
		return &service.StatusResponse{Version: "v2", Healthz: "no key", KeyID: "none"}, nil
	}
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: current}, nil
}

func (p *plugin) Encrypt(_ context.Context, uid string, data []byte) (*service.EncryptResponse, error) {
	known, err := p.known()
	if err != nil {
		return nil, err
	}
	current := known[len(known)-1]
	if current == "" {
		return nil, fmt.Errorf("no key")
	}
	return &service.EncryptResponse{
		Ciphertext:  masked(current, data),
		KeyID:       current,
		Annotations: map[string][]byte{"plugin.stele.test": []byte(current)},
	}, nil
}

func (p *plugin) Decrypt(_ context.Context, uid string, req *service.DecryptRequest) ([]byte, error) {
	known, err := p.known()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known, req.KeyID) {
		return nil, fmt.Errorf("unknown key %q", req.KeyID)
	}
	if note := string(req.Annotations["plugin.stele.test"]); note != req.KeyID {
		return nil, fmt.Errorf("the annotation is %q", note)
	}
	return masked(req.KeyID, req.Ciphertext), nil
}

func masked(key string, data []byte) []byte {
	out := slices.Clone(data)
	for at := range out {
		out[at] ^= key[at%len(key)]
	}
	return out
}

// serve answers until the standard input ends, as it does when the caller does.
func serve(socket, keys string) {
	server := service.NewGRPCService(socket, 5*time.Second, &plugin{keys})
	go func() {
		_, err := io.Copy(io.Discard, os.Stdin)
		check(err)
		server.Close()
		os.Exit(0)
	}()
	check(server.ListenAndServe())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
