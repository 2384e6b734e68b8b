package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

const applyDefinition = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},
"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{
"spec":{"type":"object","properties":{"size":{"type":"integer"},"ratio":{"type":"number"},"note":{"type":"string"},"port":{"x-kubernetes-int-or-string":true},
"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},"whole":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}},
"pairs":{"type":"object","additionalProperties":{"type":"string"}},"plain":{"type":"array","items":{"type":"string"}},
"set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},"numbers":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"integer"}},
"items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name","kind"],"items":{"type":"object","required":["name"],"properties":{
"name":{"type":"string"},"kind":{"type":"string","default":"x"},"value":{"type":"integer"},"inner":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}},
"more":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["id"],"items":{"type":"object","properties":{"id":{"type":"integer"},"t":{"type":"string"}}}}}}}}},
"status":{"type":"object","properties":{"phase":{"type":"string"},"count":{"type":"integer"}}}}}}}]}}`

// applier runs writes on objects of one kind as Kubernetes' server does.
type applier struct {
	gvk     schema.GroupVersionKind
	builtin bool
	types   managedfields.TypeConverter
	reset   map[fieldpath.APIVersion]fieldpath.Filter
}

// plain is what custom resources are converted, defaulted and made with.
type plain struct{ gvk schema.GroupVersionKind }

func (plain) Default(runtime.Object)             {}
func (plain) Convert(in, out, context any) error { return fmt.Errorf("no conversion") }
func (plain) ConvertFieldLabel(schema.GroupVersionKind, string, string) (string, string, error) {
	return "", "", nil
}
func (p plain) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}
func (p plain) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(gvk)
	return object, nil
}

func openAPIModels() map[string]*spec.Schema {
	models := map[string]*spec.Schema{}
	dir := filepath.Join(moduleDir("k8s.io/kubernetes"), "api/openapi-spec/v3")
	for _, file := range []string{"api__v1_openapi.json", "apis__apps__v1_openapi.json"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		check(err)
		var document spec3.OpenAPI
		check(json.Unmarshal(text, &document))
		for name, model := range document.Components.Schemas {
			models[name] = model
		}
	}
	return models
}

func appliers() []applier {
	models := openAPIModels()
	types, err := managedfields.NewTypeConverter(models, false)
	check(err)
	var all []applier
	for _, gvk := range []schema.GroupVersionKind{
		{Group: "apps", Version: "v1", Kind: "Deployment"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Service"}, {Version: "v1", Kind: "ConfigMap"},
	} {
		all = append(all, applier{gvk: gvk, builtin: true, types: types, reset: resetOf(gvk)})
	}
	var definition apiextensions.CustomResourceDefinition
	check(json.Unmarshal([]byte(applyDefinition), &definition))
	document, err := builder.BuildOpenAPIV3(&definition, "v1", builder.Options{})
	check(err)
	merged := map[string]*spec.Schema{}
	for name, model := range models {
		merged[name] = model
	}
	for name, model := range document.Components.Schemas {
		merged[name] = model
	}
	custom, err := managedfields.NewTypeConverter(merged, false)
	check(err)
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	return append(all, applier{gvk: gvk, types: custom, reset: resetOf(gvk)})
}

func resetOf(gvk schema.GroupVersionKind) map[fieldpath.APIVersion]fieldpath.Filter {
	version := fieldpath.APIVersion(gvk.GroupVersion().String())
	set := fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	return fieldpath.NewExcludeFilterSetMap(map[fieldpath.APIVersion]*fieldpath.Set{version: set})
}

func (a applier) manager() *managedfields.FieldManager {
	var manager *managedfields.FieldManager
	var err error
	if a.builtin {
		s := legacyscheme.Scheme
		hub := schema.GroupVersion{Group: a.gvk.Group, Version: runtime.APIVersionInternal}
		manager, err = managedfields.NewDefaultFieldManager(a.types, runtime.UnsafeObjectConvertor(s), s, s, a.gvk, hub, "", a.reset)
	} else {
		p := plain{a.gvk}
		manager, err = managedfields.NewDefaultCRDFieldManager(a.types, p, p, p, a.gvk, a.gvk.GroupVersion(), "", a.reset)
	}
	check(err)
	return manager
}

// read decodes an object as a body, with defaults.
func (a applier) read(object map[string]any) runtime.Object {
	if !a.builtin {
		return &unstructured.Unstructured{Object: runtime.DeepCopyJSON(object)}
	}
	text, err := json.Marshal(object)
	check(err)
	read, _, err := legacyscheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	check(err)
	internal, err := legacyscheme.Scheme.ConvertToVersion(read, schema.GroupVersion{Group: a.gvk.Group, Version: runtime.APIVersionInternal})
	check(err)
	return internal
}

func (a applier) write(object runtime.Object) map[string]any {
	if custom, ok := object.(*unstructured.Unstructured); ok {
		return custom.DeepCopy().Object
	}
	text, err := runtime.Encode(legacyscheme.Codecs.LegacyCodec(a.gvk.GroupVersion()), object)
	check(err)
	var written map[string]any
	check(json.Unmarshal(text, &written))
	return written
}

// applications gives what Kubernetes makes of random writes by several managers. Each line is one
// write; the writes of a sequence follow each other on one object.
func applications(seed int64, sequences int) []any {
	random := rand.New(rand.NewSource(seed))
	all := appliers()
	var lines []any
	for n := range sequences {
		a := all[n%len(all)]
		lines = append(lines, a.sequence(random, n)...)
	}
	return lines
}

// patchOf gives a configuration as the server reads it; it does the same with numbers of YAML.
func patchOf(config map[string]any) *unstructured.Unstructured {
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	text, _ := json.Marshal(config)
	check(json.Unmarshal(text, &patch.Object))
	patch.Object = integers(patch.Object).(map[string]any)
	return patch
}

// sortedLines gives a message whose managers are in the order of a Go map.
func sortedLines(err error) string {
	told := strings.Split(err.Error(), "\n")
	sort.Strings(told)
	return strings.Join(told, "\n")
}

// repeated runs a write often enough to see whether Go's random order of maps changes its answer:
// a message names fields up to the first unknown one, and versions take their turns.
func repeated(write func() (runtime.Object, error)) (runtime.Object, error, bool) {
	const times = 8
	var first string
	for time := 0; ; time++ {
		after, err := write()
		told := ""
		if err != nil {
			told = sortedLines(err)
		} else {
			settle(after)
			text, err := json.Marshal(after)
			check(err)
			told = string(text)
		}
		if time == 0 {
			first = told
		}
		if told != first || time == times {
			return after, err, told == first
		}
	}
}

// hasContainers is false for what validation refuses: pods without any.
func hasContainers(object map[string]any) bool {
	spec, _ := object["spec"].(map[string]any)
	if object["kind"] == "Deployment" {
		template, _ := spec["template"].(map[string]any)
		spec, _ = template["spec"].(map[string]any)
	} else if object["kind"] != "Pod" {
		return true
	}
	containers, _ := spec["containers"].([]any)
	return len(containers) > 0
}

// settle makes the file the same each time; earlier writes stay older than the next one.
func settle(object runtime.Object) {
	accessor, err := meta.Accessor(object)
	check(err)
	accessor.SetUID("u")
	entries := accessor.GetManagedFields()
	for at := range entries {
		if entries[at].Time != nil {
			entries[at].Time = &metav1.Time{Time: time.Unix(1e9, 0)}
		}
	}
	accessor.SetManagedFields(entries)
}

func (a applier) sequence(random *rand.Rand, n int) []any {
	var lines []any
	manager := a.manager()
	var live runtime.Object
	for range 4 + random.Intn(5) {
		name := []string{"kubectl", "m1", "m2", "m3"}[random.Intn(4)]
		line := map[string]any{"sequence": n, "kind": a.gvk.Kind, "apiVersion": a.gvk.GroupVersion().String(), "manager": name}
		before := live
		if before == nil {
			made, err := a.creater().New(a.gvk)
			check(err)
			before = made
		}
		if name == "m3" && random.Intn(2) == 0 {
			name = fmt.Sprint("m", 3+random.Intn(20))
			line["manager"] = name
		}
		var after runtime.Object
		var err error
		var same bool
		config := a.random(random)
		if live != nil && random.Intn(3) == 0 || live == nil && random.Intn(2) == 0 {
			if live != nil && random.Intn(2) == 0 {
				config = mixed(random, a.write(live), config)
			}
			accessor := metadataOf(config)
			accessor["uid"] = "u"
			delete(accessor, "managedFields")
			if live != nil && random.Intn(12) == 0 {
				accessor["managedFields"] = [][]any{{}, {map[string]any{}}}[random.Intn(2)]
			}
			if live == nil {
				delete(accessor, "uid")
			}
			if name == "kubectl" && random.Intn(3) > 0 {
				text, err := json.Marshal(config)
				check(err)
				annotations, _ := accessor["annotations"].(map[string]any)
				if annotations == nil {
					annotations = map[string]any{}
				}
				annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(text)
				accessor["annotations"] = annotations
			}
			line["update"] = config
			after, err, same = repeated(func() (runtime.Object, error) {
				return manager.Update(before.DeepCopyObject(), a.read(config), name)
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
			result := a.write(after)
			if !hasContainers(result) {
				continue
			}
			live = after
			line["result"] = result
		}
		lines = append(lines, line)
	}
	return lines
}

func (a applier) creater() runtime.ObjectCreater {
	if a.builtin {
		return internalCreater{}
	}
	return plain{a.gvk}
}

type internalCreater struct{}

func (internalCreater) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return legacyscheme.Scheme.New(gvk)
}

func metadataOf(object map[string]any) map[string]any {
	m, ok := object["metadata"].(map[string]any)
	if !ok {
		m = map[string]any{}
		object["metadata"] = m
	}
	return m
}

// integers makes whole numbers integers, as the decoders of bodies do.
func integers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = integers(v[key])
		}
	case []any:
		for at := range v {
			v[at] = integers(v[at])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// mixed takes each field from one of two objects.
func mixed(random *rand.Rand, a, b map[string]any) map[string]any {
	result := map[string]any{}
	for key, value := range a {
		result[key] = value
	}
	keys := make([]string, 0, len(b))
	for key := range b {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	for _, key := range keys {
		value := b[key]
		if random.Intn(2) == 0 && key != "apiVersion" && key != "kind" {
			inner, ok := value.(map[string]any)
			old, also := result[key].(map[string]any)
			if ok && also {
				result[key] = mixed(random, old, inner)
			} else {
				result[key] = value
			}
		}
	}
	return result
}

type dice struct{ *rand.Rand }

func (d dice) pick(words ...string) []string {
	words = append([]string{}, words...)
	d.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
	return words[:d.Intn(len(words)+1)]
}

func (d dice) maybe(into map[string]any, key string, value any) {
	if d.Intn(2) == 0 {
		into[key] = value
	}
}

func (d dice) texts(words ...string) map[string]any {
	m := map[string]any{}
	for _, key := range d.pick(words...) {
		m[key] = fmt.Sprint(d.Intn(2))
	}
	return m
}

func (d dice) list(words ...string) []any {
	items := []any{}
	for _, word := range d.pick(words...) {
		items = append(items, word)
	}
	return items
}

func (d dice) metadata() map[string]any {
	m := map[string]any{"name": "n", "namespace": "default"}
	d.maybe(m, "labels", d.texts("a", "b", "c"))
	d.maybe(m, "annotations", d.texts("x", "y"))
	d.maybe(m, "finalizers", d.list("e.x/f1", "e.x/f2", "e.x/f3"))
	owners := []any{}
	for _, uid := range d.pick("o1", "o2") {
		owners = append(owners, map[string]any{"apiVersion": "v1", "kind": "Node", "name": "o", "uid": uid, "controller": d.Intn(4) == 0})
	}
	d.maybe(m, "ownerReferences", owners)
	return m
}

func (d dice) podSpec() map[string]any {
	containers := []any{}
	for _, name := range append(d.pick("a", "b", "c"), "z") {
		c := map[string]any{"name": name}
		d.maybe(c, "image", fmt.Sprint("i", d.Intn(2)))
		ports := []any{}
		for _, port := range d.pick("80", "443", "53") {
			var number int64
			fmt.Sscan(port, &number)
			one := map[string]any{"containerPort": number}
			d.maybe(one, "protocol", []string{"TCP", "UDP"}[d.Intn(2)])
			d.maybe(one, "name", "p"+port)
			ports = append(ports, one)
		}
		d.maybe(c, "ports", ports)
		env := []any{}
		for _, name := range d.pick("E", "F", "G") {
			env = append(env, map[string]any{"name": name, "value": fmt.Sprint(d.Intn(2))})
		}
		if d.Intn(25) == 0 {
			env = append(env, map[string]any{"name": "E", "value": "again"}, map[string]any{"name": "E", "value": "and again"})
		}
		d.maybe(c, "env", env)
		d.maybe(c, "args", d.list("x", "y"))
		resources := map[string]any{}
		d.maybe(resources, "limits", map[string]any{"cpu": []any{"1", "1000m", "2"}[d.Intn(3)]})
		d.maybe(c, "resources", resources)
		d.maybe(c, "securityContext", map[string]any{"runAsUser": int64(d.Intn(2))})
		mounts := []any{}
		for _, path := range d.pick("/a", "/b") {
			mounts = append(mounts, map[string]any{"mountPath": path, "name": "v"})
		}
		d.maybe(c, "volumeMounts", mounts)
		containers = append(containers, c)
	}
	p := map[string]any{"containers": containers}
	d.maybe(p, "nodeSelector", d.texts("k", "l"))
	d.maybe(p, "tolerations", []any{map[string]any{"key": fmt.Sprint("t", d.Intn(2))}})
	volumes := []any{}
	for _, name := range d.pick("v", "w") {
		source := map[string]any{"name": name}
		if d.Intn(2) == 0 {
			source["emptyDir"] = map[string]any{}
		} else {
			source["configMap"] = map[string]any{"name": "c", "items": []any{map[string]any{"key": "k", "path": "p"}}}
		}
		volumes = append(volumes, source)
	}
	d.maybe(p, "volumes", volumes)
	d.maybe(p, "terminationGracePeriodSeconds", int64(d.Intn(2)))
	spread := []any{}
	for _, key := range d.pick("h", "i") {
		spread = append(spread, map[string]any{"topologyKey": key, "whenUnsatisfiable": []string{"DoNotSchedule", "ScheduleAnyway"}[d.Intn(2)], "maxSkew": int64(1 + d.Intn(2))})
	}
	d.maybe(p, "topologySpreadConstraints", spread)
	d.maybe(p, "imagePullSecrets", []any{map[string]any{"name": "s"}})
	return p
}

// random gives a configuration of the kind; some do not fit the type.
func (a applier) random(random *rand.Rand) map[string]any {
	d := dice{random}
	object := map[string]any{"apiVersion": a.gvk.GroupVersion().String(), "kind": a.gvk.Kind, "metadata": d.metadata()}
	s := map[string]any{}
	switch a.gvk.Kind {
	case "Pod":
		s = d.podSpec()
	case "Deployment":
		d.maybe(s, "replicas", int64(d.Intn(3)))
		d.maybe(s, "selector", map[string]any{"matchLabels": d.texts("a", "b")})
		// Validation refuses the other strategy with these numbers, so its objects are not compared.
		strategy := map[string]any{"type": "RollingUpdate"}
		d.maybe(strategy, "rollingUpdate", map[string]any{"maxSurge": []any{int64(1), "25%"}[d.Intn(2)]})
		d.maybe(s, "strategy", strategy)
		d.maybe(s, "paused", d.Intn(2) == 0)
		template := map[string]any{"spec": d.podSpec()}
		d.maybe(template, "metadata", map[string]any{"labels": d.texts("a", "b", "c")})
		d.maybe(s, "template", template)
		d.maybe(object, "status", map[string]any{"replicas": int64(d.Intn(3))})
	case "Service":
		ports := []any{}
		for _, port := range []int64{80, 443, 53}[:d.Intn(4)] {
			one := map[string]any{"port": port}
			d.maybe(one, "protocol", []string{"TCP", "UDP"}[d.Intn(2)])
			d.maybe(one, "targetPort", []any{port, "web"}[d.Intn(2)])
			d.maybe(one, "name", fmt.Sprint("p", port))
			ports = append(ports, one)
		}
		d.maybe(s, "ports", ports)
		d.maybe(s, "selector", d.texts("a", "b"))
		d.maybe(s, "externalIPs", d.list("1.1.1.1", "2.2.2.2"))
		d.maybe(s, "type", []string{"ClusterIP", "NodePort"}[d.Intn(2)])
	case "ConfigMap":
		d.maybe(object, "data", d.texts("a", "b", "c"))
		d.maybe(object, "binaryData", map[string]any{"z": "AAAA"})
		d.maybe(object, "immutable", false)
		return object
	case "Thing":
		d.maybe(s, "size", int64(d.Intn(3)))
		d.maybe(s, "ratio", []any{1.5, int64(1), int64(2)}[d.Intn(3)])
		d.maybe(s, "note", fmt.Sprint(d.Intn(2)))
		d.maybe(s, "port", []any{int64(80), "http"}[d.Intn(2)])
		d.maybe(s, "free", map[string]any{"a": d.texts("p", "q"), "l": d.list("m", "n"), "n": nil})
		d.maybe(s, "whole", d.texts("a", "b"))
		d.maybe(s, "pairs", d.texts("a", "b"))
		d.maybe(s, "plain", d.list("x", "y"))
		d.maybe(s, "set", d.list("x", "y", "z"))
		numbers := []any{}
		for _, number := range d.pick("1", "2", "10") {
			var n int64
			fmt.Sscan(number, &n)
			numbers = append(numbers, n)
		}
		d.maybe(s, "numbers", numbers)
		items := []any{}
		for _, name := range d.pick("a", "b", "c", "d") {
			one := map[string]any{"name": name}
			d.maybe(one, "kind", []string{"x", "y"}[d.Intn(2)])
			d.maybe(one, "value", int64(d.Intn(2)))
			d.maybe(one, "inner", d.texts("a", "b"))
			more := []any{}
			for _, id := range []int64{7, 8, 10}[:d.Intn(4)] {
				m := map[string]any{"id": id}
				d.maybe(m, "t", fmt.Sprint(d.Intn(2)))
				more = append(more, m)
			}
			d.maybe(one, "more", more)
			items = append(items, one)
		}
		d.maybe(s, "items", items)
		if d.Intn(30) == 0 {
			s["set"] = []any{"x", "x"}
		}
		if d.Intn(40) == 0 {
			// The check stops here, after a random part of the fields.
			s["unknown"] = "y"
		} else if d.Intn(40) == 0 {
			s["size"] = "text"
		}
		d.maybe(object, "status", map[string]any{"phase": fmt.Sprint(d.Intn(2))})
	}
	d.maybe(object, "spec", s)
	return object
}
