// Kubernetes' own Go client against the apiserver: typed informers that begin with a watch list,
// protobuf both ways, and an election on a Lease. Prints what happened and ends with 0.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	openapi "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/util/retry"
	models "k8s.io/kube-openapi/pkg/util/proto"
)

const protobuf = "application/vnd.kubernetes.protobuf"

func main() {
	server := flag.String("server", "", "URL of the apiserver")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	config := &rest.Config{Host: *server, ContentConfig: rest.ContentConfig{
		ContentType: protobuf, AcceptContentTypes: protobuf + ",application/json"}}
	client := kubernetes.NewForConfigOrDie(config)
	check(informed(ctx, client, metadata.NewForConfigOrDie(config)))
	check(raced(ctx, client))
	check(elected(ctx, client))
	check(described(ctx, client.Discovery()))
	fmt.Println("all is well")
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Informers see existing, created, changed and deleted objects.
func informed(ctx context.Context, client kubernetes.Interface, objects metadata.Interface) error {
	pods := client.CoreV1().Pods("default")
	pod := func(name string) *core.Pod {
		containers := []core.Container{{Name: "c", Image: "nginx"}}
		return &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: core.PodSpec{Containers: containers}}
	}
	if _, err := pods.Create(ctx, pod("before"), meta.CreateOptions{}); err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	seen := make(chan string, 100)
	factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { seen <- "added " + o.(*core.Pod).Name },
		UpdateFunc: func(_, o any) { seen <- "updated " + o.(*core.Pod).Name },
		DeleteFunc: func(o any) { seen <- "deleted " + o.(*core.Pod).Name },
	})
	factory.Apps().V1().Deployments().Informer()
	factory.Core().V1().Nodes().Informer()
	factory.Storage().V1().CSINodes().Informer()
	factory.Start(ctx.Done())
	only := metadatainformer.NewSharedInformerFactory(objects, 0)
	deployments := only.ForResource(apps.SchemeGroupVersion.WithResource("deployments"))
	deployments.Informer()
	only.Start(ctx.Done())
	for kind, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v was never synced", kind)
		}
	}
	if !cache.WaitForCacheSync(ctx.Done(), deployments.Informer().HasSynced) {
		return fmt.Errorf("metadata was never synced")
	}
	if _, err := pods.Create(ctx, pod("after"), meta.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"a":"b"}}}`)
	if _, err := pods.Patch(ctx, "after", types.StrategicMergePatchType, patch, meta.PatchOptions{}); err != nil {
		return err
	}
	if err := pods.Delete(ctx, "after", meta.DeleteOptions{}); err != nil {
		return err
	}
	for _, want := range []string{"added before", "added after", "updated after", "deleted after"} {
		select {
		case got := <-seen:
			if got != want {
				return fmt.Errorf("saw %q, not %q", got, want)
			}
		case <-ctx.Done():
			return fmt.Errorf("never saw %q", want)
		}
	}
	_, err := pods.Get(ctx, "after", meta.GetOptions{})
	if !errors.IsNotFound(err) {
		return fmt.Errorf("a deleted pod: %v", err)
	}
	fmt.Println("informed")
	return nil
}

// Updates of an old state are refused, and the client retries them.
func raced(ctx context.Context, client kubernetes.Interface) error {
	maps := client.CoreV1().ConfigMaps("default")
	object := &core.ConfigMap{ObjectMeta: meta.ObjectMeta{GenerateName: "raced-"}}
	object, err := maps.Create(ctx, object, meta.CreateOptions{})
	if err != nil {
		return err
	}
	stale := object.DeepCopy()
	object.Data = map[string]string{"a": "1"}
	if _, err := maps.Update(ctx, object, meta.UpdateOptions{}); err != nil {
		return err
	}
	stale.Data = map[string]string{"b": "2"}
	if _, err := maps.Update(ctx, stale, meta.UpdateOptions{}); !errors.IsConflict(err) {
		return fmt.Errorf("a stale update: %v", err)
	}
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := maps.Get(ctx, object.Name, meta.GetOptions{})
		if err != nil {
			return err
		}
		now.Data["b"] = "2"
		_, err = maps.Update(ctx, now, meta.UpdateOptions{})
		return err
	})
	fmt.Println("raced")
	return err
}

// One of the candidates becomes the leader.
func elected(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	leading := make(chan struct{})
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  meta.ObjectMeta{Namespace: "kube-system", Name: "leader"},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: "me"},
	}
	go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second,
		RetryPeriod: time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leading) },
			OnStoppedLeading: func() {},
		},
	})
	select {
	case <-leading:
		fmt.Println("elected")
		return nil
	case <-ctx.Done():
		return fmt.Errorf("never elected")
	}
}

// The OpenAPI v2 document in protobuf says what the one in JSON says, and has models of all kinds.
func described(ctx context.Context, client discovery.DiscoveryInterface) error {
	document, err := client.OpenAPISchema()
	if err != nil {
		return err
	}
	text, err := client.RESTClient().Get().AbsPath("/openapi/v2").SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return err
	}
	parsed, err := openapi.ParseDocument(text)
	if err != nil {
		return err
	}
	if !proto.Equal(document, parsed) {
		return fmt.Errorf("/openapi/v2 says different things in protobuf and in JSON")
	}
	all, err := models.NewOpenAPIData(document)
	if err != nil {
		return err
	}
	for _, name := range []string{"core.v1.Pod", "apps.v1.Deployment", "rbac.v1.ClusterRoleList"} {
		model, is := all.LookupModel("io.k8s.api." + name).(*models.Kind)
		if !is || model.Fields["metadata"] == nil {
			return fmt.Errorf("/openapi/v2 has no model of %s", name)
		}
	}
	fmt.Println("the schemas have", len(all.ListModels()), "models")
	return nil
}
