package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"

	internaldefinition "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Gadgets are converted by changing their version, and widgets by a webhook. v3 is not served.
const versionedDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gadgets.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"gadgets","singular":"gadget","kind":"Gadget","listKind":"GadgetList"},
"versions":[
{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"},"note":{"type":"string"},"first":{"type":"string"},"mode":{"type":"string","default":"a"},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"pairs":{"type":"object","additionalProperties":{"type":"string"}},
"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
"name":{"type":"string"},"value":{"type":"integer"},"more":{"type":"string"}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}},
{"name":"v2","served":true,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"},"length":{"type":"integer"},"note":{"type":"string"},"second":{"type":"string"},"mode":{"type":"string","default":"b"},
"set":{"type":"array","x-kubernetes-list-type":"atomic","items":{"type":"string"}},"pairs":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
"name":{"type":"string"},"value":{"type":"integer"}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}},
{"name":"v3","served":false,"storage":false,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"},"note":{"type":"string"},"mode":{"type":"string"},
"set":{"type":"array","items":{"type":"string"}},"pairs":{"type":"object","additionalProperties":{"type":"string"}},
"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
"name":{"type":"string"},"value":{"type":"integer"},"more":{"type":"string"}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"}}}}}}}]}}`

// family is a kind in all its versions, and how its objects are stored.
type family struct {
	appliers []applier
	stored   schema.GroupVersion
	custom   *customVersions
	// Versions that managers may name though nobody can write in them.
	foreign []string
}

// customVersions converts the objects of a custom resource.
type customVersions struct {
	group   string
	webhook bool
	schemas map[string]*structural.Structural
}

func (customVersions) Default(runtime.Object)             {}
func (customVersions) Convert(in, out, context any) error { return fmt.Errorf("no conversion") }
func (customVersions) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", nil
}
func (customVersions) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return plain{}.New(gvk)
}

// ConvertToVersion does what the server's converter of custom resources does: nobody takes fields
// away that the version does not have.
func (c customVersions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	object := in.(*unstructured.Unstructured).DeepCopy()
	to, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{object.GroupVersionKind()})
	if !ok {
		return nil, fmt.Errorf("no kind")
	}
	for _, one := range []struct {
		word string
		gv   schema.GroupVersion
	}{{"to", to.GroupVersion()}, {"from", object.GroupVersionKind().GroupVersion()}} {
		if c.schemas[one.gv.Version] == nil || one.gv.Group != c.group {
			return nil, fmt.Errorf("request to convert CR %s an invalid group/version: %s", one.word, one.gv.String())
		}
	}
	from := object.GroupVersionKind()
	if from.GroupVersion() == to.GroupVersion() {
		return object, nil
	}
	if c.webhook {
		body, _ := object.Object["spec"].(map[string]any)
		if body["note"] == "fails" {
			return nil, fmt.Errorf("conversion webhook for %v failed: the note says so", from)
		}
		rename(body, from.Version, to.Version)
	}
	object.SetGroupVersionKind(to.GroupVersion().WithKind(from.Kind))
	return object, nil
}

// rename moves a field that v2 has under another name.
func rename(body map[string]any, from, to string) {
	before, after := "size", "length"
	if (from == "v2") == (to == "v2") || body == nil {
		return
	}
	if from == "v2" {
		before, after = after, before
	}
	if value, ok := body[before]; ok {
		delete(body, before)
		body[after] = value
	}
}

// complete does what the server's codec does with an object of a body or of the store.
func (c customVersions) complete(object *unstructured.Unstructured) {
	c.coerce(object)
	defaulting.Default(object.Object, c.schemas[object.GroupVersionKind().Version])
}

func (c customVersions) coerce(object *unstructured.Unstructured) {
	s := c.schemas[object.GroupVersionKind().Version]
	metadata := object.Object["metadata"]
	pruning.Prune(object.Object, s, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object.Object, s)
	if metadata != nil {
		object.Object["metadata"] = metadata
	}
}

// models reads the schemas of groups as the server has them when it installs the groups.
func modelsOf(files ...string) map[string]*spec.Schema {
	models := map[string]*spec.Schema{}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(moduleDir("k8s.io/kubernetes"), "api/openapi-spec/v3", file))
		check(err)
		var document spec3.OpenAPI
		check(json.Unmarshal(text, &document))
		for name, model := range document.Components.Schemas {
			models[name] = model
		}
	}
	return models
}

func builtinFamily(kind string, stored schema.GroupVersion, reset bool, foreign []string, versions ...schema.GroupVersion) family {
	result := family{stored: stored, foreign: foreign}
	resets := map[fieldpath.APIVersion]*fieldpath.Set{}
	if reset {
		for _, gv := range versions {
			resets[fieldpath.APIVersion(gv.String())] = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
		}
	}
	for _, gv := range versions {
		// The core group is installed by itself: its models do not have other groups, nor they its.
		files := []string{"api__v1_openapi.json"}
		if gv.Group != "" {
			files = []string{"apis__autoscaling__v1_openapi.json", "apis__autoscaling__v2_openapi.json", "apis__events.k8s.io__v1_openapi.json"}
		}
		types, err := managedfields.NewTypeConverter(modelsOf(files...), false)
		check(err)
		result.appliers = append(result.appliers, applier{
			gvk: gv.WithKind(kind), builtin: true, types: types, reset: fieldpath.NewExcludeFilterSetMap(resets),
		})
	}
	return result
}

func customFamily(kind string, webhook bool) family {
	text := strings.ReplaceAll(versionedDefinition, "Gadget", kind)
	text = strings.ReplaceAll(text, "gadget", strings.ToLower(kind))
	var definition apiextensions.CustomResourceDefinition
	check(json.Unmarshal([]byte(text), &definition))
	custom := &customVersions{group: definition.Spec.Group, webhook: webhook, schemas: map[string]*structural.Structural{}}
	models := modelsOf("api__v1_openapi.json")
	for _, version := range definition.Spec.Versions {
		document, err := builder.BuildOpenAPIV3(&definition, version.Name, builder.Options{})
		check(err)
		for name, model := range document.Components.Schemas {
			models[name] = model
		}
		var props internaldefinition.JSONSchemaProps
		check(apiextensions.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(version.Schema.OpenAPIV3Schema, &props, nil))
		custom.schemas[version.Name], err = structural.NewStructural(&props)
		check(err)
	}
	types, err := managedfields.NewTypeConverter(models, false)
	check(err)
	result := family{stored: schema.GroupVersion{Group: custom.group, Version: "v1"}, custom: custom, foreign: []string{"example.com/v3", "example.com/v0"}}
	for _, version := range []string{"v1", "v2"} {
		gvk := schema.GroupVersionKind{Group: custom.group, Version: version, Kind: kind}
		result.appliers = append(result.appliers, applier{gvk: gvk, types: types, reset: resetOf(gvk)})
	}
	return result
}

func families() []family {
	hpa1, hpa2 := schema.GroupVersion{Group: "autoscaling", Version: "v1"}, schema.GroupVersion{Group: "autoscaling", Version: "v2"}
	core, events := schema.GroupVersion{Version: "v1"}, schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}
	gone := []string{"autoscaling/v2beta2", "example.com/v1"}
	return []family{
		builtinFamily("HorizontalPodAutoscaler", hpa2, true, gone, hpa1, hpa2),
		customFamily("Gadget", false),
		customFamily("Widget", true),
		builtinFamily("Event", core, false, []string{"events.k8s.io/v1beta1"}, core, events),
	}
}

func (f family) manager(a applier) *managedfields.FieldManager {
	if f.custom == nil {
		return a.manager()
	}
	manager, err := managedfields.NewDefaultCRDFieldManager(a.types, f.custom, defaulter{f.custom}, f.custom, a.gvk, a.gvk.GroupVersion(), "", a.reset)
	check(err)
	return manager
}

// defaulter fills in the defaults of a version.
type defaulter struct{ *customVersions }

func (d defaulter) Default(object runtime.Object) {
	u := object.(*unstructured.Unstructured)
	defaulting.Default(u.Object, d.schemas[u.GroupVersionKind().Version])
}

// read decodes an object as a body, with defaults.
func (f family) read(a applier, object map[string]any) runtime.Object {
	read := a.read(object)
	if f.custom != nil {
		f.custom.complete(read.(*unstructured.Unstructured))
	}
	return read
}

// store returns what the store has after a write.
func (f family) store(object runtime.Object) (map[string]any, error) {
	if f.custom == nil {
		text, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(f.stored), object)
		check(err)
		var stored map[string]any
		check(json.Unmarshal(text, &stored))
		return stored, nil
	}
	converted, err := f.custom.ConvertToVersion(object, f.stored)
	if err != nil {
		return nil, err
	}
	stored := converted.(*unstructured.Unstructured)
	f.custom.coerce(stored)
	return stored.Object, nil
}

// load returns what a request for a version reads.
func (f family) load(a applier, stored map[string]any) (runtime.Object, error) {
	if f.custom == nil {
		return applier{gvk: f.stored.WithKind(a.gvk.Kind), builtin: true}.read(stored), nil
	}
	object := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(stored)}
	f.custom.complete(object)
	converted, err := f.custom.ConvertToVersion(object, a.gvk.GroupVersion())
	if err != nil {
		return nil, err
	}
	read := converted.(*unstructured.Unstructured)
	f.custom.coerce(read)
	return read, nil
}

// versionedWrites gives what Kubernetes makes of random writes in several versions of one object. What a
// write begins with is in the store, in the version of the store.
func versionedWrites(seed int64, sequences int) []any {
	random := rand.New(rand.NewSource(seed))
	all := families()
	var lines []any
	for n := range sequences {
		lines = append(lines, all[n%len(all)].sequence(random, n)...)
	}
	return lines
}

func (f family) sequence(random *rand.Rand, n int) []any {
	var lines []any
	var stored map[string]any
	for range 4 + random.Intn(6) {
		a := f.appliers[random.Intn(len(f.appliers))]
		name := []string{"kubectl", "m1", "m2"}[random.Intn(3)]
		line := map[string]any{"sequence": n, "kind": a.gvk.Kind, "apiVersion": a.gvk.GroupVersion().String(), "manager": name}
		if stored != nil && random.Intn(8) == 0 {
			f.disguise(random, stored)
		}
		line["stored"] = runtime.DeepCopyJSONValue(any(stored))
		manager := f.manager(a)
		var before runtime.Object
		var err error
		if stored == nil {
			if f.custom != nil {
				before, err = plain{}.New(a.gvk)
			} else {
				before, err = legacyscheme.Scheme.New(a.gvk)
			}
			check(err)
		} else if before, err = f.load(a, stored); err != nil {
			line["unreadable"] = err.Error()
			lines = append(lines, line)
			break
		}
		var after runtime.Object
		var same bool
		config := f.random(a, random)
		if stored != nil && random.Intn(3) == 0 || stored == nil && random.Intn(2) == 0 {
			if stored != nil && random.Intn(2) == 0 {
				config = mixed(random, a.write(before), config)
			}
			accessor := metadataOf(config)
			delete(accessor, "managedFields")
			if stored != nil {
				accessor["uid"] = "u"
			}
			line["update"] = config
			after, err, same = repeated(func() (runtime.Object, error) {
				return manager.Update(before.DeepCopyObject(), f.read(a, config), name)
			})
		} else {
			force := random.Intn(3) == 0
			line["apply"], line["force"] = config, force
			after, err, same = repeated(func() (runtime.Object, error) {
				return manager.Apply(before.DeepCopyObject(), patchOf(config), name, force)
			})
		}
		if !same {
			continue
		}
		if err != nil {
			line["error"] = sortedLines(err)
		} else {
			if f.custom != nil {
				f.custom.complete(after.(*unstructured.Unstructured))
			}
			line["result"] = a.write(after)
			if kept, err := f.store(after); err == nil {
				stored = kept
			} else {
				line["unstored"] = err.Error()
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// disguise moves one manager to a version that nobody can write in, or that is gone.
func (f family) disguise(random *rand.Rand, stored map[string]any) {
	entries, _ := metadataOf(stored)["managedFields"].([]any)
	if len(entries) == 0 {
		return
	}
	entry := entries[random.Intn(len(entries))].(map[string]any)
	entry["apiVersion"] = f.foreign[random.Intn(len(f.foreign))]
}

// random gives a configuration of the version.
func (f family) random(a applier, random *rand.Rand) map[string]any {
	d := dice{random}
	object := map[string]any{"apiVersion": a.gvk.GroupVersion().String(), "kind": a.gvk.Kind, "metadata": d.metadata()}
	switch {
	case a.gvk.Kind == "HorizontalPodAutoscaler":
		d.autoscaler(object, a.gvk.Version)
	case a.gvk.Kind == "Event":
		d.event(object, a.gvk.Group == "")
	default:
		d.gadget(object, a.gvk)
	}
	return object
}

func (d dice) gadget(object map[string]any, gvk schema.GroupVersionKind) {
	s := map[string]any{}
	note := fmt.Sprint(d.Intn(2))
	if gvk.Kind == "Widget" && d.Intn(15) == 0 {
		note = "fails"
	}
	d.maybe(s, "note", note)
	d.maybe(s, "mode", []string{"a", "b"}[d.Intn(2)])
	d.maybe(s, "set", d.list("x", "y", "z"))
	d.maybe(s, "pairs", d.texts("a", "b"))
	items := []any{}
	for _, name := range d.pick("a", "b", "c") {
		one := map[string]any{"name": name}
		d.maybe(one, "value", int64(d.Intn(2)))
		if gvk.Version == "v1" && d.Intn(6) == 0 {
			one["more"] = "m"
		}
		items = append(items, one)
	}
	d.maybe(s, "items", items)
	own := map[string]string{"v1": "first", "v2": "second"}[gvk.Version]
	if d.Intn(6) == 0 {
		s[own] = "o"
	}
	size := "size"
	if gvk.Kind == "Widget" && gvk.Version == "v2" {
		size = "length"
	}
	d.maybe(s, size, int64(d.Intn(3)))
	d.maybe(object, "spec", s)
	if d.Intn(4) == 0 {
		object["status"] = map[string]any{"phase": fmt.Sprint(d.Intn(2))}
	}
}

func (d dice) event(object map[string]any, core bool) {
	names := []string{"regarding", "note", "reportingController", "deprecatedSource", "deprecatedCount", "deprecatedFirstTimestamp"}
	if core {
		names = []string{"involvedObject", "message", "reportingComponent", "source", "count", "firstTimestamp"}
	}
	values := []any{
		map[string]any{"kind": "Pod", "name": fmt.Sprint(d.Intn(2))}, fmt.Sprint(d.Intn(2)), fmt.Sprint(d.Intn(2)),
		map[string]any{"component": "c", "host": fmt.Sprint(d.Intn(2))}, int64(d.Intn(3)), "2026-01-01T00:00:00Z",
	}
	for at, name := range names {
		d.maybe(object, name, values[at])
	}
	d.maybe(object, "reason", fmt.Sprint(d.Intn(2)))
	d.maybe(object, "type", []string{"Normal", "Warning"}[d.Intn(2)])
	d.maybe(object, "action", fmt.Sprint(d.Intn(2)))
}

func (d dice) autoscaler(object map[string]any, version string) {
	s := map[string]any{"maxReplicas": int64(1 + d.Intn(3)), "scaleTargetRef": map[string]any{"kind": "Deployment", "name": fmt.Sprint(d.Intn(2)), "apiVersion": "apps/v1"}}
	d.maybe(s, "minReplicas", int64(1+d.Intn(2)))
	status := map[string]any{"desiredReplicas": int64(d.Intn(2)), "currentReplicas": int64(d.Intn(2))}
	if version == "v1" {
		d.maybe(s, "targetCPUUtilizationPercentage", int64(50+d.Intn(2)))
		d.maybe(status, "currentCPUUtilizationPercentage", int64(50+d.Intn(2)))
		if annotations, ok := metadataOf(object)["annotations"].(map[string]any); ok {
			for _, one := range [][2]string{
				{"metrics", `[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1000Mi"}},{"Type":"Pods","pods":{"metricName":"a<b"}}]`},
				{"metrics", `[{"type":"External","external":{"metricName":"m","targetValue":"2500m","metricSelector":{"matchLabels":{"type":"b","name":"c"}}}}]`},
				{"metrics", `[{"type":7}]`}, {"metrics", `no list`},
				{"behavior", `{"ScaleUp":{"SelectPolicy":"Min","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":60}]}}`},
				{"behavior", `{"scaleDown":{"tolerance":"50m"}}`}, {"behavior", `{}`},
				{"conditions", `[{"type":"AbleToScale","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]`},
				{"current-metrics", `[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":7,"currentAverageValue":"70m"}}]`},
				{"scale-up-tolerance", `1`},
			} {
				if d.Intn(5) == 0 {
					annotations["autoscaling.alpha.kubernetes.io/"+one[0]] = one[1]
				}
			}
		}
	} else {
		metrics, current := d.metrics()
		d.maybe(s, "metrics", metrics)
		d.maybe(status, "currentMetrics", current)
		conditions := []any{}
		for _, name := range d.pick("AbleToScale", "ScalingActive") {
			one := map[string]any{"type": name, "status": "True"}
			d.maybe(one, "reason", "r&r")
			d.maybe(one, "lastTransitionTime", "2026-01-01T00:00:00Z")
			conditions = append(conditions, one)
		}
		d.maybe(status, "conditions", conditions)
		behavior := map[string]any{}
		for _, direction := range []string{"scaleUp", "scaleDown"} {
			rules := map[string]any{}
			d.maybe(rules, "selectPolicy", []string{"Max", "Disabled"}[d.Intn(2)])
			d.maybe(rules, "stabilizationWindowSeconds", int64(d.Intn(3)))
			d.maybe(rules, "tolerance", "100m")
			d.maybe(rules, "policies", []any{map[string]any{"type": "Pods", "value": int64(d.Intn(3)), "periodSeconds": int64(60)}})
			d.maybe(behavior, direction, rules)
		}
		if d.Intn(4) == 0 {
			s["behavior"] = behavior
		}
	}
	object["spec"] = s
	if d.Intn(4) == 0 {
		object["status"] = status
	}
}

// metrics gives targets and their present values.
func (d dice) metrics() (sources, statuses []any) {
	sources, statuses = []any{}, []any{}
	values := func() map[string]any {
		m := map[string]any{}
		d.maybe(m, "value", []any{"1", "1500m", "0"}[d.Intn(3)])
		d.maybe(m, "averageValue", []any{"2", "2000m"}[d.Intn(2)])
		return m
	}
	target := func(kind string) map[string]any {
		m := values()
		m["type"] = kind
		return m
	}
	identity := func() map[string]any {
		m := map[string]any{"name": "m" + fmt.Sprint(d.Intn(2))}
		d.maybe(m, "selector", map[string]any{"matchLabels": d.texts("kind", "name", "a"), "matchExpressions": []any{map[string]any{"key": "k", "operator": "In", "values": []any{"v"}}}})
		return m
	}
	described := map[string]any{"kind": "Service", "name": "s"}
	d.maybe(described, "apiVersion", "v1")
	for _, kind := range d.pick("Object", "Pods", "Resource", "ContainerResource", "External", "CPU") {
		switch kind {
		case "Object":
			sources = append(sources, map[string]any{"type": kind, "object": map[string]any{"describedObject": described, "metric": identity(), "target": target("Value")}})
			statuses = append(statuses, map[string]any{"type": kind, "object": map[string]any{"describedObject": described, "metric": identity(), "current": values()}})
		case "Pods":
			sources = append(sources, map[string]any{"type": kind, "pods": map[string]any{"metric": identity(), "target": target("AverageValue")}})
			statuses = append(statuses, map[string]any{"type": kind, "pods": map[string]any{"metric": identity(), "current": values()}})
		case "Resource":
			sources = append(sources, map[string]any{"type": kind, "resource": map[string]any{"name": "memory", "target": target("AverageValue")}})
			statuses = append(statuses, map[string]any{"type": kind, "resource": map[string]any{"name": "memory", "current": values()}})
		case "ContainerResource":
			sources = append(sources, map[string]any{"type": kind, "containerResource": map[string]any{"name": "cpu", "container": "c", "target": map[string]any{"type": "Utilization", "averageUtilization": int64(5)}}})
			statuses = append(statuses, map[string]any{"type": kind, "containerResource": map[string]any{"name": "cpu", "container": "c", "current": map[string]any{"averageUtilization": int64(5), "averageValue": "1"}}})
		case "External":
			sources = append(sources, map[string]any{"type": kind, "external": map[string]any{"metric": identity(), "target": target("Value")}})
			statuses = append(statuses, map[string]any{"type": kind, "external": map[string]any{"metric": identity(), "current": values()}})
		case "CPU":
			for range 1 + d.Intn(2) {
				sources = append(sources, map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", "target": map[string]any{"type": "Utilization", "averageUtilization": int64(50 + d.Intn(2))}}})
				current := map[string]any{"averageValue": "10m"}
				d.maybe(current, "averageUtilization", int64(40+d.Intn(2)))
				statuses = append(statuses, map[string]any{"type": "Resource", "resource": map[string]any{"name": "cpu", "current": current}})
			}
		}
	}
	return sources, statuses
}
