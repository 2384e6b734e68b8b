package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// objects gives, for every kind, an empty object, a full one and a thinner one: as Go writes them
// in protobuf, and as Go writes in JSON what it reads from that.
func objects() []any {
	all := allKinds()
	var kinds []schema.GroupVersionKind
	for gvk, goType := range all.AllKnownTypes() {
		meta := goType.PkgPath() == "k8s.io/apimachinery/pkg/apis/meta/v1"
		if meta || gvk.Version == runtime.APIVersionInternal || gvk.Kind == "List" || gvk.Kind == "ConversionReview" || !served(gvk.GroupVersion()) {
			continue
		}
		kinds = append(kinds, gvk)
	}
	kinds = append(kinds, schema.GroupVersionKind{Version: "v1", Kind: "Status"}, schema.GroupVersionKind{Version: "v1", Kind: "DeleteOptions"})
	sort.Slice(kinds, func(a, b int) bool { return kinds[a].String() < kinds[b].String() })
	serializer := protobuf.NewSerializer(all, all)
	var lines []any
	for _, gvk := range kinds {
		chances := []float64{0, 0.4}
		if !strings.HasSuffix(gvk.Kind, "List") {
			chances = append(chances, 1)
		}
		for variant, chance := range chances {
			// Kinds around a pod template would repeat the pod again and again.
			if goType := all.AllKnownTypes()[gvk]; chance == 1 && gvk.Kind != "Pod" && embedsPod(goType) {
				chance = 0.25
			}
			object, err := all.New(gvk)
			check(err)
			f := filler{random: rand.New(rand.NewSource(int64(variant + 1))), chance: chance}
			f.fill(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(gvk)
			var wire bytes.Buffer
			check(serializer.Encode(object, &wire))
			back, _, err := serializer.Decode(wire.Bytes(), nil, nil)
			check(err)
			back.GetObjectKind().SetGroupVersionKind(gvk)
			text, err := json.Marshal(back)
			check(err)
			lines = append(lines, map[string]any{
				"apiVersion": gvk.GroupVersion().String(), "kind": gvk.Kind, "fill": chance,
				"json": json.RawMessage(text), "protobuf": wire.Bytes(),
			})
		}
	}
	return lines
}

func served(gv schema.GroupVersion) bool {
	for _, v := range versions {
		if v.group == gv.Group && v.version == gv.Version {
			return true
		}
	}
	return false
}

func embedsPod(goType reflect.Type) bool {
	text := fmt.Sprint(goType)
	for _, word := range []string{"Pod", "Deployment", "ReplicaSet", "DaemonSet", "StatefulSet", "Job", "ReplicationController"} {
		if strings.HasPrefix(text, "v1."+word) {
			return true
		}
	}
	return false
}

// filler sets fields to values that differ from each other; chance says how many.
type filler struct {
	random *rand.Rand
	chance float64
	count  int
}

func (f *filler) skip() bool { return f.random.Float64() >= f.chance }

func (f *filler) fill(v reflect.Value, depth int) {
	f.count++
	switch at := v.Addr().Interface().(type) {
	case *metav1.TypeMeta:
		return
	case *metav1.Time:
		// A pointer to the zero time is null in JSON and so does not survive it.
		if f.chance > 0 {
			*at = metav1.Unix(1700000000+int64(f.count), 0)
		}
		return
	case *metav1.MicroTime:
		if f.chance > 0 {
			*at = metav1.NewMicroTime(time.Unix(1700000000+int64(f.count), 123456000))
		}
		return
	case *resource.Quantity:
		*at = resource.MustParse([]string{"0", "1500m", "2Gi", "3e3", "-1", "12"}[f.random.Intn(6)])
		return
	case *intstr.IntOrString:
		if *at = intstr.FromInt32(int32(f.count)); f.count%2 == 0 {
			*at = intstr.FromString("25%")
		}
		return
	case *runtime.RawExtension:
		at.Raw = []byte(`{"apiVersion":"v1","kind":"Foo","n":1}`)
		return
	case *metav1.FieldsV1:
		at.Raw = []byte(`{"f:spec":{"f:a":{}}}`)
		return
	case *apiextensions.JSON:
		at.Raw = []byte(`{"a":[1,"b"]}`)
		return
	case *apiextensions.JSONSchemaPropsOrBool:
		at.Allows = true
		return
	case *apiextensions.JSONSchemaPropsOrArray:
		at.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		return
	case *apiextensions.JSONSchemaPropsOrStringArray:
		at.Property = []string{"a", "b"}
		return
	}
	f.fillKind(v, depth)
}

func (f *filler) fillKind(v reflect.Value, depth int) {
	deep := depth > 24 || (depth > 7 && strings.Contains(v.Type().String(), "JSONSchemaProps"))
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if !f.skip() && !deep {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if f.skip() || deep {
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, 255, byte(f.count)})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		f.fill(v.Index(0), depth+1)
	case reflect.Map:
		if f.skip() || deep {
			return
		}
		v.Set(reflect.MakeMap(v.Type()))
		for _, key := range []string{"b", "a"} {
			item := reflect.New(v.Type().Elem()).Elem()
			f.fill(item, depth+1)
			v.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), item)
		}
	default:
		f.fillPlain(v)
	}
}

func (f *filler) fillPlain(v reflect.Value) {
	if f.skip() {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint("s", f.count))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64:
		if v.SetInt(int64(f.count)); f.count%5 == 0 {
			v.SetInt(-int64(f.count))
		}
	case reflect.Float64:
		v.SetFloat(1.5)
	}
}
