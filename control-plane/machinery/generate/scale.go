package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"time"

	autoscaling "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	internal "k8s.io/kubernetes/pkg/apis/autoscaling"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// scaled gives what writes of a Scale make of the managers of its parent. The parent has two
// versions with a number of replicas in different places, and one without.
func scaled() []any {
	random := rand.New(rand.NewSource(1))
	types, err := managedfields.NewTypeConverter(modelsOf("apis__apps__v1_openapi.json"), false)
	check(err)
	s := legacyscheme.Scheme
	gvk := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	hub := schema.GroupVersion{Group: "autoscaling", Version: runtime.APIVersionInternal}
	manager, err := managedfields.NewDefaultFieldManager(types, runtime.UnsafeObjectConvertor(s), s, s, gvk, hub, "scale", nil)
	check(err)
	paths := managedfields.ResourcePathMappings{
		"a.example/v1": fieldpath.MakePathOrDie("spec", "replicas"),
		"a.example/v2": fieldpath.MakePathOrDie("spec", "pods", "count"),
		"a.example/v3": nil,
	}
	var lines []any
	for range 400 {
		parent := parentEntries(random)
		version := []string{"v1", "v2"}[random.Intn(2)]
		handler := managedfields.NewScaleHandler(parent, schema.GroupVersion{Group: "a.example", Version: version}, paths)
		shown, err := handler.ToSubresource()
		check(err)
		line := map[string]any{"parent": parent, "version": "a.example/" + version, "scale": shown}
		live := &internal.Scale{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n", UID: "u", ManagedFields: shown}, Spec: internal.ScaleSpec{Replicas: 3}}
		name := fmt.Sprint("m", random.Intn(3))
		line["manager"] = name
		replicas := int64(3 + random.Intn(2))
		var after runtime.Object
		if random.Intn(2) == 0 {
			line["update"] = replicas
			changed := live.DeepCopy()
			changed.Spec.Replicas = int32(replicas)
			after, err = manager.Update(live, changed, name)
		} else {
			patch := map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": map[string]any{"name": "s", "namespace": "n"}}
			switch random.Intn(6) {
			case 0:
			case 1:
				patch["spec"] = map[string]any{}
			default:
				patch["spec"] = map[string]any{"replicas": replicas}
			}
			force := random.Intn(2) == 0
			line["apply"], line["force"] = patch, force
			after, err = manager.Apply(live, &unstructured.Unstructured{Object: runtime.DeepCopyJSON(patch)}, name, force)
		}
		if err != nil {
			line["error"] = err.Error()
		} else {
			text, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(autoscaling.SchemeGroupVersion), after)
			check(err)
			var written autoscaling.Scale
			check(json.Unmarshal(text, &written))
			line["replicas"] = written.Spec.Replicas
			result, err := handler.ToParent(written.ManagedFields)
			check(err)
			if hasTwins(result) {
				continue
			}
			line["result"] = result
		}
		lines = append(lines, line)
	}
	return lines
}

func parentEntries(random *rand.Rand) []metav1.ManagedFieldsEntry {
	var entries []metav1.ManagedFieldsEntry
	taken := map[string]bool{}
	for n := range 1 + random.Intn(4) {
		entry := metav1.ManagedFieldsEntry{
			Manager: fmt.Sprint("m", random.Intn(3)), Operation: metav1.ManagedFieldsOperationType([]string{"Update", "Apply"}[random.Intn(2)]),
			APIVersion: fmt.Sprint("a.example/v", 1+random.Intn(4)), FieldsType: "FieldsV1", Subresource: []string{"", "scale", "status"}[random.Intn(3)],
		}
		key := fmt.Sprint(entry.Manager, entry.Operation, entry.Subresource)
		if entry.Operation == "Update" {
			key += entry.APIVersion
		}
		if taken[key] {
			continue
		}
		taken[key] = true
		if random.Intn(4) > 0 {
			entry.Time = &metav1.Time{Time: time.Unix(1e9+int64(n), 0).UTC()}
		}
		fields := []string{`{"f:spec":{"f:replicas":{}}}`, `{"f:spec":{"f:replicas":{},"f:x":{}}}`, `{"f:spec":{"f:pods":{".":{},"f:count":{}}}}`, `{"f:spec":{"f:pods":{"f:count":{}},"f:x":{}}}`, `{"f:spec":{"f:x":{}}}`}
		entry.FieldsV1 = &metav1.FieldsV1{Raw: []byte(fields[random.Intn(len(fields))])}
		entries = append(entries, entry)
	}
	return entries
}

// hasTwins tells whether two managers differ in their fields alone: Kubernetes lists them in random
// order.
func hasTwins(entries []metav1.ManagedFieldsEntry) bool {
	seen := map[string]bool{}
	for _, entry := range entries {
		entry.FieldsV1 = nil
		text, err := json.Marshal(entry)
		check(err)
		if seen[string(text)] {
			return true
		}
		seen[string(text)] = true
	}
	return false
}
