package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// versions is the catalogue: what a default v1.36 server has switched on, in the order and with
// the priorities discovery gives them.
var versions = []struct {
	group, version string
	priority       int
}{
	{"", "v1", 18000},
	{"apiregistration.k8s.io", "v1", 17900},
	{"apps", "v1", 17800},
	{"events.k8s.io", "v1", 17750},
	{"authentication.k8s.io", "v1", 17700},
	{"authorization.k8s.io", "v1", 17600},
	{"autoscaling", "v2", 17500},
	{"autoscaling", "v1", 17500},
	{"batch", "v1", 17400},
	{"certificates.k8s.io", "v1", 17300},
	{"networking.k8s.io", "v1", 17200},
	{"policy", "v1", 17100},
	{"rbac.authorization.k8s.io", "v1", 17000},
	{"storage.k8s.io", "v1", 16800},
	{"admissionregistration.k8s.io", "v1", 16700},
	{"apiextensions.k8s.io", "v1", 16700},
	{"scheduling.k8s.io", "v1", 16600},
	{"coordination.k8s.io", "v1", 16500},
	{"node.k8s.io", "v1", 16300},
	{"discovery.k8s.io", "v1", 16200},
	{"resource.k8s.io", "v1", 16200},
	{"flowcontrol.apiserver.k8s.io", "v1", 16100},
}

// special types have a JSON form that their fields do not tell; the reader knows them by name.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time]():                                "time",
	reflect.TypeFor[metav1.MicroTime]():                           "microtime",
	reflect.TypeFor[metav1.Duration]():                            "duration",
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "intorstring",
	reflect.TypeFor[runtime.RawExtension]():                       "raw",
	reflect.TypeFor[metav1.FieldsV1]():                            "fieldsv1",
	reflect.TypeFor[apiextensions.JSON]():                         "json",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-array",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-strings",
}

// definition is what we read of one type in the OpenAPI document.
type definition struct {
	Required   []string `json:"required"`
	Properties map[string]property
	MapType    string `json:"x-kubernetes-map-type"`
}

type property struct {
	Default  json.RawMessage `json:"default"`
	ListType string          `json:"x-kubernetes-list-type"`
	ListKeys []string        `json:"x-kubernetes-list-map-keys"`
	MapType  string          `json:"x-kubernetes-map-type"`
}

// UnmarshalJSON passes over the few properties that are not objects.
func (p *property) UnmarshalJSON(text []byte) error {
	type plain property
	if len(text) > 0 && text[0] == '{' {
		return json.Unmarshal(text, (*plain)(p))
	}
	return nil
}

type table struct {
	definitions map[string]definition
	types       map[string]reflect.Type
}

func allKinds() *runtime.Scheme {
	all := scheme.Scheme
	check(apiextensions.AddToScheme(all))
	check(apiregistration.AddToScheme(all))
	return all
}

func writeSchema(to io.Writer) {
	out := bufio.NewWriter(to)
	defer out.Flush()
	dir := moduleDir("k8s.io/kubernetes")
	t := table{definitions: map[string]definition{}, types: map[string]reflect.Type{}}
	t.readDefinitions(filepath.Join(dir, "api/openapi-spec/v3"))
	all := allKinds()

	fmt.Fprintln(out, "# Facts about Kubernetes v1.36.3's API, made by ../../generate: do not edit. The forms of the lines:")
	fmt.Fprintln(out, "# V group version priority · R plural singular kind scope verbs shorts categories message · S name group/version/kind verbs message")
	fmt.Fprintln(out, "# K group version kind message · T message flags · F json number type flags")
	writeResources(out, dir, all, &t)
	writeKinds(out, all, &t)
	t.writeTypes(out)
}

func moduleDir(module string) string {
	text, err := exec.Command("go", "mod", "download", "-json", module).Output()
	check(err)
	var found struct{ Dir string }
	check(json.Unmarshal(text, &found))
	return found.Dir
}

func (t *table) readDefinitions(dir string) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		var document struct {
			Components struct {
				Schemas map[string]definition `json:"schemas"`
			} `json:"components"`
		}
		check(json.Unmarshal(text, &document))
		for name, d := range document.Components.Schemas {
			t.definitions[name] = d
		}
	}
}

type kindRef struct{ Group, Version, Kind string }

type discovered struct {
	Resource         string
	ResponseKind     kindRef
	Scope            string
	SingularResource string
	Verbs            []string
	ShortNames       []string
	Categories       []string
	Subresources     []struct {
		Subresource  string
		ResponseKind kindRef
		Verbs        []string
	}
}

func writeResources(out io.Writer, dir string, all *runtime.Scheme, t *table) {
	type document struct {
		Items []struct {
			Metadata struct{ Name string }
			Versions []struct {
				Version   string
				Resources []discovered
			}
		}
	}
	found := map[schema.GroupVersion][]discovered{}
	for _, file := range []string{"aggregated_v2.json", "api.json"} {
		text, err := os.ReadFile(filepath.Join(dir, "api/discovery", file))
		check(err)
		var d document
		check(json.Unmarshal(text, &d))
		for _, group := range d.Items {
			for _, v := range group.Versions {
				found[schema.GroupVersion{Group: group.Metadata.Name, Version: v.Version}] = v.Resources
			}
		}
	}
	found[schema.GroupVersion{Version: "v1"}] = legacyCore(dir)
	for _, v := range versions {
		gv := schema.GroupVersion{Group: v.group, Version: v.version}
		fmt.Fprintf(out, "V %s %s %d\n", dash(v.group), v.version, v.priority)
		for _, r := range found[gv] {
			gvk := gv.WithKind(r.ResponseKind.Kind)
			fmt.Fprintf(out, "R %s %s %s %s %s %s %s %s\n", r.Resource, r.SingularResource, gvk.Kind, r.Scope,
				list(r.Verbs), list(r.ShortNames), list(r.Categories), t.name(all.AllKnownTypes()[gvk]))
			for _, s := range r.Subresources {
				of := schema.GroupVersionKind(s.ResponseKind)
				if of.Version == "" {
					of.Group, of.Version = gv.Group, gv.Version
				}
				fmt.Fprintf(out, "S %s %s/%s/%s %s %s\n", s.Subresource, of.Group, of.Version, of.Kind, list(s.Verbs), t.name(all.AllKnownTypes()[of]))
			}
		}
	}
}

// legacyCore reads the core group, which the module records only in the flat v1 form.
func legacyCore(dir string) []discovered {
	text, err := os.ReadFile(filepath.Join(dir, "api/discovery/api__v1.json"))
	check(err)
	var document metav1.APIResourceList
	check(json.Unmarshal(text, &document))
	byName := map[string]*discovered{}
	var names []string
	for _, r := range document.APIResources {
		base, sub, nested := strings.Cut(r.Name, "/")
		of := kindRef{r.Group, r.Version, r.Kind}
		if !nested {
			scope := "Cluster"
			if r.Namespaced {
				scope = "Namespaced"
			}
			byName[base] = &discovered{Resource: base, ResponseKind: of, Scope: scope, SingularResource: r.SingularName,
				Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories}
			names = append(names, base)
			continue
		}
		owner := byName[base]
		owner.Subresources = append(owner.Subresources, struct {
			Subresource  string
			ResponseKind kindRef
			Verbs        []string
		}{sub, of, r.Verbs})
	}
	sort.Strings(names)
	var rows []discovered
	for _, name := range names {
		rows = append(rows, *byName[name])
	}
	return rows
}

// older are kinds of versions that are not served, whose objects a store may still have, and whose
// fields are not those of the present version.
var older = []schema.GroupVersionKind{
	{Group: "extensions", Version: "v1beta1", Kind: "Ingress"},
	{Group: "networking.k8s.io", Version: "v1beta1", Kind: "Ingress"},
	{Group: "node.k8s.io", Version: "v1alpha1", Kind: "RuntimeClass"},
	{Group: "rbac.authorization.k8s.io", Version: "v1alpha1", Kind: "ClusterRoleBinding"},
	{Group: "rbac.authorization.k8s.io", Version: "v1alpha1", Kind: "RoleBinding"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceClaim"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceClaimTemplate"},
	{Group: "resource.k8s.io", Version: "v1beta1", Kind: "ResourceSlice"},
}

// writeKinds lists every kind a body may carry, not only those that have a collection.
func writeKinds(out io.Writer, all *runtime.Scheme, t *table) {
	var rows []string
	for gvk, goType := range all.AllKnownTypes() {
		served := slices.ContainsFunc(versions, func(v struct {
			group, version string
			priority       int
		}) bool {
			return v.group == gvk.Group && v.version == gvk.Version
		})
		served = served || slices.Contains(older, gvk)
		meta := goType.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1"
		if gvk.Version == runtime.APIVersionInternal || (!served && !(meta && gvk.Group == "meta.k8s.io" && gvk.Version == "v1")) {
			continue
		}
		// The options of calls are registered once per group; the reader knows that by itself.
		if meta && gvk.Group != "" && gvk.Group != "meta.k8s.io" {
			continue
		}
		if gvk.Kind == "WatchEvent" {
			goType = reflect.TypeFor[metav1.WatchEvent]()
		}
		rows = append(rows, fmt.Sprintf("K %s %s %s %s\n", dash(gvk.Group), gvk.Version, gvk.Kind, t.name(goType)))
	}
	sort.Strings(rows)
	for _, extra := range []any{metav1.PartialObjectMetadata{}, metav1.PartialObjectMetadataList{}} {
		goType := reflect.TypeOf(extra)
		row := fmt.Sprintf("K meta.k8s.io v1 %s %s\n", goType.Name(), t.name(goType))
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	for _, row := range rows {
		fmt.Fprint(out, row)
	}
	discovery := reflect.TypeFor[apidiscovery.APIGroupDiscoveryList]()
	fmt.Fprintf(out, "K apidiscovery.k8s.io v2 %s %s\n", discovery.Name(), t.name(discovery))
}

// name gives a type its short name and remembers it for writeTypes.
func (t *table) name(goType reflect.Type) string {
	if goType == nil {
		return "-"
	}
	name := shortName(goType)
	if known, ok := t.types[name]; ok && known != goType {
		panic("two types called " + name)
	}
	t.types[name] = goType
	return name
}

func shortName(goType reflect.Type) string {
	path := goType.PkgPath()
	for _, prefix := range []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/", "k8s.io/apiextensions-apiserver/pkg/apis/",
		"k8s.io/kube-aggregator/pkg/apis/", "k8s.io/apimachinery/pkg/"} {
		path = strings.TrimPrefix(path, prefix)
	}
	return path + "." + goType.Name()
}

func openAPIName(goType reflect.Type) string {
	path := strings.Split(goType.PkgPath(), "/")
	host := strings.Split(path[0], ".")
	slices.Reverse(host)
	return strings.Join(append(host, path[1:]...), ".") + "." + goType.Name()
}

func (t *table) writeTypes(out io.Writer) {
	written := map[string]bool{}
	for {
		var names []string
		for name := range t.types {
			if !written[name] {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			break
		}
		sort.Strings(names)
		for _, name := range names {
			written[name] = true
			t.writeType(out, name, t.types[name])
		}
	}
}

func (t *table) writeType(out io.Writer, name string, goType reflect.Type) {
	d := t.definitions[openAPIName(goType)]
	flags := ""
	if d.MapType == "atomic" {
		flags = " atomic"
	}
	if goType.Kind() == reflect.Slice {
		// A named list is a message of its own in protobuf: its items are field 1.
		fmt.Fprintf(out, "T %s list\nF items 1 []%s\n", name, t.typeName(goType.Elem()))
		return
	}
	if f, ok := goType.FieldByName("TypeMeta"); ok && f.Anonymous {
		flags += " typed"
	}
	fmt.Fprintf(out, "T %s%s\n", name, flags)
	for i := range goType.NumField() {
		t.writeField(out, goType.Field(i), d)
	}
}

func (t *table) writeField(out io.Writer, f reflect.StructField, d definition) {
	if f.Type == reflect.TypeFor[metav1.TypeMeta]() || !f.IsExported() {
		return
	}
	number := "0"
	if tag := strings.Split(f.Tag.Get("protobuf"), ","); len(tag) > 1 {
		number = tag[1]
	}
	json := strings.Split(f.Tag.Get("json"), ",")
	name := json[0]
	if name == "-" {
		return
	}
	goType := f.Type
	var flags []string
	if goType.Kind() == reflect.Pointer {
		goType = goType.Elem()
		flags = append(flags, "ptr")
	}
	inline := name == "" && f.Anonymous
	if inline {
		name = "-"
		flags = append(flags, "inline")
	} else if name == "" {
		name = f.Name
	}
	for _, word := range json[1:] {
		if word == "omitempty" || word == "omitzero" {
			flags = append(flags, word)
		}
	}
	if slices.Contains(d.Required, name) {
		flags = append(flags, "required")
	}
	for key, label := range map[string]string{"patchStrategy": "patch", "patchMergeKey": "key"} {
		if value := f.Tag.Get(key); value != "" {
			flags = append(flags, label+"="+value)
		}
	}
	property := d.Properties[name]
	if property.ListType != "" {
		flags = append(flags, "list="+property.ListType)
	}
	if len(property.ListKeys) > 0 {
		flags = append(flags, "keys="+strings.Join(property.ListKeys, ","))
	}
	if property.MapType != "" {
		flags = append(flags, "map="+property.MapType)
	}
	sort.Strings(flags)
	if byDefault := string(property.Default); byDefault != "" && byDefault != "{}" && byDefault != `""` && byDefault != "0" && byDefault != "false" {
		flags = append(flags, "default="+byDefault)
	}
	text := ""
	if len(flags) > 0 {
		text = " " + strings.Join(flags, " ")
	}
	fmt.Fprintf(out, "F %s %s %s%s\n", name, number, t.typeName(goType), text)
}

func (t *table) typeName(goType reflect.Type) string {
	if name, ok := special[goType]; ok {
		if strings.HasPrefix(name, "schema-or") {
			t.name(reflect.TypeFor[apiextensions.JSONSchemaProps]())
		}
		return name
	}
	switch goType.Kind() {
	case reflect.String:
		if goType.PkgPath() != "" {
			return "string:" + shortName(goType)
		}
		return "string"
	case reflect.Bool, reflect.Int32, reflect.Int64, reflect.Float64:
		return goType.Kind().String()
	case reflect.Slice:
		if goType.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		if _, message := goType.MethodByName("Marshal"); message || isMessage(goType) {
			if goType.PkgPath() != "" && namedListMessage(goType) {
				return t.name(goType)
			}
		}
		return "[]" + t.typeName(goType.Elem())
	case reflect.Map:
		return "map:" + t.typeName(goType.Elem())
	case reflect.Pointer:
		return t.typeName(goType.Elem())
	case reflect.Struct:
		return t.name(goType)
	}
	panic("no name for " + goType.String())
}

func isMessage(goType reflect.Type) bool {
	_, ok := reflect.PointerTo(goType).MethodByName("Unmarshal")
	return ok
}

// namedListMessage tells lists that protobuf wraps into a message from mere names for a list.
func namedListMessage(goType reflect.Type) bool { return isMessage(goType) }

func list(words []string) string {
	return dash(strings.Join(words, ","))
}

func dash(word string) string {
	if word == "" {
		return "-"
	}
	return word
}
