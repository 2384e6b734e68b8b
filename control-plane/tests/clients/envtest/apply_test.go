package envtest

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/applyconfigurations/autoscaling/v2"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// TestApply is what an operator does that applies its objects, as two owners of one object.
func TestApply(t *testing.T) {
	config := begin(t, &envtest.Environment{})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	direct, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	one, two := client.FieldOwner("one"), client.FieldOwner("two")

	// A typed configuration is given what the server made of it.
	applied := corev1apply.ConfigMap("a", "default").WithData(map[string]string{"shared": "1", "ones": "x"})
	if err := direct.Apply(ctx, applied, one); err != nil {
		t.Fatal(err)
	}
	if applied.UID == nil || *applied.UID == "" {
		t.Error("the configuration has no uid")
	}
	err = direct.Apply(ctx, corev1apply.ConfigMap("a", "default").WithData(map[string]string{"shared": "2"}), two)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .data.shared`) {
		t.Errorf("no conflict: %v", err)
	}
	err = direct.Apply(ctx, corev1apply.ConfigMap("a", "default").WithData(map[string]string{"shared": "2"}), two, client.ForceOwnership)
	if err != nil {
		t.Fatal(err)
	}
	// What its owner does not name any more is gone, and what others own stays.
	if err := direct.Apply(ctx, corev1apply.ConfigMap("a", "default"), one); err != nil {
		t.Fatal(err)
	}
	var found corev1.ConfigMap
	if err := direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "a"}, &found); err != nil {
		t.Fatal(err)
	}
	if len(found.Data) != 1 || found.Data["shared"] != "2" {
		t.Errorf("data: %v", found.Data)
	}
	if len(found.ManagedFields) != 1 || found.ManagedFields[0].Manager != "two" || found.ManagedFields[0].Operation != metav1.ManagedFieldsOperationApply {
		t.Errorf("managers: %v", found.ManagedFields)
	}
	dry := corev1apply.ConfigMap("b", "default").WithData(map[string]string{"k": "v"})
	if err := direct.Apply(ctx, dry, one, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if err := direct.Get(ctx, client.ObjectKey{Namespace: "default", Name: "b"}, &found); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run was stored: %v", err)
	}

	// A configuration without a type, in one version of a kind, and a typed one in another.
	older := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
		"metadata": map[string]any{"name": "h", "namespace": "default"},
		"spec": map[string]any{"maxReplicas": int64(3), "targetCPUUtilizationPercentage": int64(50),
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
	}}
	if err := direct.Apply(ctx, client.ApplyConfigurationFromUnstructured(older), one); err != nil {
		t.Fatal(err)
	}
	newer := v2.HorizontalPodAutoscaler("h", "default").WithSpec(v2.HorizontalPodAutoscalerSpec().WithMaxReplicas(4))
	err = direct.Apply(ctx, newer, two)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `conflict with "one": .spec.maxReplicas`) {
		t.Errorf("no conflict: %v", err)
	}
	if err := direct.Apply(ctx, newer, two, client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	if err := direct.Get(ctx, client.ObjectKeyFromObject(older), older); err != nil {
		t.Fatal(err)
	}
	target, _, _ := unstructured.NestedInt64(older.Object, "spec", "targetCPUUtilizationPercentage")
	most, _, _ := unstructured.NestedInt64(older.Object, "spec", "maxReplicas")
	if target != 50 || most != 4 {
		t.Errorf("the older version shows %d %% and %d replicas", target, most)
	}
}
