// Package envtest runs an operator's test as operators write it: controller-runtime's envtest
// starts etcd and kube-apiserver from KUBEBUILDER_ASSETS.
package envtest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	finalizer = "stele.example/copies"
	patience  = time.Minute
)

// copier keeps a secret with the data of each config map that is labelled for it.
type copier struct{ client.Client }

func (c *copier) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var source corev1.ConfigMap
	if err := c.Get(ctx, request.NamespacedName, &source); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if source.Labels["copied"] != "true" {
		return ctrl.Result{}, nil
	}
	secret := corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: source.Name, Namespace: source.Namespace}}
	if !source.DeletionTimestamp.IsZero() {
		if err := client.IgnoreNotFound(c.Delete(ctx, &secret)); err != nil {
			return ctrl.Result{}, err
		}
		controllerutil.RemoveFinalizer(&source, finalizer)
		return ctrl.Result{}, c.Update(ctx, &source)
	}
	if controllerutil.AddFinalizer(&source, finalizer) {
		return ctrl.Result{}, c.Update(ctx, &source)
	}
	_, err := controllerutil.CreateOrUpdate(ctx, c.Client, &secret, func() error {
		secret.StringData = source.Data
		return controllerutil.SetControllerReference(&source, &secret, c.Scheme())
	})
	return ctrl.Result{}, err
}

// begin starts a server that ends with the test.
func begin(t *testing.T, environment *envtest.Environment) *rest.Config {
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	return config
}

func TestOperator(t *testing.T) {
	config := begin(t, &envtest.Environment{})
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:         scheme.Scheme,
		Metrics:        server.Options{BindAddress: "0"},
		LeaderElection: true, LeaderElectionID: "copier", LeaderElectionNamespace: "default",
	})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewControllerManagedBy(manager).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).
		Complete(&copier{manager.GetClient()})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- manager.Start(running) }()

	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	source := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"copied": "true"}},
		Data:       map[string]string{"key": "first"},
	}
	if err := direct.Create(ctx, &source); err != nil {
		t.Fatal(err)
	}
	name := types.NamespacedName{Namespace: "default", Name: "a"}
	copied := func(value string) func() bool {
		return func() bool {
			var secret corev1.Secret
			err := direct.Get(ctx, name, &secret)
			return err == nil && string(secret.Data["key"]) == value
		}
	}
	eventually(t, "the secret is made", copied("first"))
	patch := client.MergeFrom(source.DeepCopy())
	source.Data["key"] = "second"
	if err := direct.Patch(ctx, &source, patch); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the secret follows", copied("second"))
	if err := direct.Delete(ctx, &source); err != nil {
		t.Fatal(err)
	}
	eventually(t, "both are gone", func() bool {
		first := direct.Get(ctx, name, &corev1.ConfigMap{})
		second := direct.Get(ctx, name, &corev1.Secret{})
		return apierrors.IsNotFound(first) && apierrors.IsNotFound(second)
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestUsersHaveTheRightsOfTheirGroups(t *testing.T) {
	environment := &envtest.Environment{}
	begin(t, environment)
	for _, user := range []struct {
		group  string
		wanted string
	}{
		{"system:masters", "No resources found"},
		{"nobodies", "Forbidden"},
	} {
		added, err := environment.AddUser(envtest.User{Name: "jane", Groups: []string{user.group}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		kubectl, err := added.Kubectl()
		if err != nil {
			t.Fatal(err)
		}
		// It fails for one of them; what it says tells both apart.
		_, told, _ := kubectl.Run("get", "pods")
		var text strings.Builder
		buffer := make([]byte, 4096)
		for {
			read, err := told.Read(buffer)
			text.Write(buffer[:read])
			if err != nil {
				break
			}
		}
		if !strings.Contains(text.String(), user.wanted) {
			t.Errorf("%s: %s", user.group, text.String())
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}
