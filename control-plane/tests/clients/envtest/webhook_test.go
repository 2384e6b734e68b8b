package envtest

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// keeper gives each config map an owner, and refuses to lose one or to change it.
type keeper struct{}

func (keeper) Default(_ context.Context, object *corev1.ConfigMap) error {
	if object.Data == nil {
		object.Data = map[string]string{}
	}
	if object.Data["owner"] == "" {
		object.Data["owner"] = "nobody"
	}
	return nil
}

func (keeper) ValidateCreate(_ context.Context, object *corev1.ConfigMap) (admission.Warnings, error) {
	if object.Data["owner"] == "me" {
		return nil, errors.New("that could be anybody")
	}
	return admission.Warnings{"it has an owner for good"}, nil
}

func (keeper) ValidateUpdate(_ context.Context, before, after *corev1.ConfigMap) (admission.Warnings, error) {
	if before.Data["owner"] != after.Data["owner"] {
		return nil, errors.New("the owner stays")
	}
	return nil, nil
}

func (keeper) ValidateDelete(_ context.Context, object *corev1.ConfigMap) (admission.Warnings, error) {
	if object.Data["owner"] != "nobody" {
		return nil, errors.New("it has an owner")
	}
	return nil, nil
}

func TestWebhooks(t *testing.T) {
	environment := &envtest.Environment{WebhookInstallOptions: configurations()}
	config := begin(t, environment)
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	defer cancel()
	local := environment.WebhookInstallOptions
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  scheme.Scheme,
		Metrics: server.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: local.LocalServingHost, Port: local.LocalServingPort, CertDir: local.LocalServingCertDir,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = ctrl.NewWebhookManagedBy(manager, &corev1.ConfigMap{}).
		WithDefaulter(keeper{}).WithValidator(keeper{}).Complete()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	running, stop := context.WithCancel(ctx)
	go func() { ended <- manager.Start(running) }()
	eventually(t, "the webhooks are served", func() bool {
		return manager.GetWebhookServer().StartedChecker()(nil) == nil
	})

	heard := &warnings{}
	config.WarningHandler = heard
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	made := configMap("made", nil)
	if err := direct.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	if made.Data["owner"] != "nobody" {
		t.Errorf("it has no default: %v", made.Data)
	}
	if len(heard.texts) != 1 || heard.texts[0] != "it has an owner for good" {
		t.Errorf("the warnings are %q", heard.texts)
	}
	refused(t, direct.Create(ctx, configMap("mine", map[string]string{"owner": "me"})), "that could be anybody")
	made.Data["owner"] = "you"
	refused(t, direct.Update(ctx, made), "the owner stays")
	yours := configMap("yours", map[string]string{"owner": "you"})
	if err := direct.Create(ctx, yours); err != nil {
		t.Fatal(err)
	}
	refused(t, direct.Delete(ctx, yours), "it has an owner")
	if err := direct.Delete(ctx, made); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// Without the server its configurations fail closed.
	err = direct.Create(ctx, configMap("late", nil))
	if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("nobody was asked: %v", err)
	}
}

// configurations are as they are in a cluster; envtest puts the server of the test in.
func configurations() envtest.WebhookInstallOptions {
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	at := func(path string) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{
			Service: &admissionv1.ServiceReference{Namespace: "system", Name: "webhook", Path: &path},
		}
	}
	rules := func(operations ...admissionv1.OperationType) []admissionv1.RuleWithOperations {
		return []admissionv1.RuleWithOperations{{
			Operations: operations,
			Rule: admissionv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
			},
		}}
	}
	inDefault := &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"}}
	return envtest.WebhookInstallOptions{
		MutatingWebhooks: []*admissionv1.MutatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "keeper"},
			Webhooks: []admissionv1.MutatingWebhook{{
				Name: "default.keeper.stele.example", ClientConfig: at("/mutate--v1-configmap"),
				Rules: rules(admissionv1.Create, admissionv1.Update), NamespaceSelector: inDefault,
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
		ValidatingWebhooks: []*admissionv1.ValidatingWebhookConfiguration{{
			ObjectMeta: metav1.ObjectMeta{Name: "keeper"},
			Webhooks: []admissionv1.ValidatingWebhook{{
				Name: "validate.keeper.stele.example", ClientConfig: at("/validate--v1-configmap"),
				Rules: rules(admissionv1.OperationAll), NamespaceSelector: inDefault,
				SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
			}},
		}},
	}
}

// warnings keeps what the server warns of.
type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.texts = append(w.texts, text)
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: data}
}

func refused(t *testing.T, err error, why string) {
	t.Helper()
	want := `admission webhook "validate.keeper.stele.example" denied the request: ` + why
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("want %q, have %v", want, err)
	}
}
