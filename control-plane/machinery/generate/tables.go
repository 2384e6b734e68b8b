package main

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation"
)

func quantities() []any {
	texts := strings.Fields(`0 1 -1 +5 100m 1500m 0.5 .5 5. 1.5Gi 1Ki 1024 1024Ki 2e3 2E3 1e-3 1E 1Ei 12345 1000 1000k 1M 1G 1T 1P 0.1Ki 1.23456789n
		1n 1u 500u 0.0000000001 1.0000000001 -0.5 -1.5Ki 1e 1ee3 abc 1.2.3 1i 1KiB -- - 999999999999 9223372036854775807 9223372036854775808 1e18 1e30 100e-1 0.25Gi 3Mi 1000Ki
		0m 0Ki 10e3 1100m 1.1 1e9 1.5e3 12e6 0.001 0.0001 128974848 129e6 129M 123Mi 4Gi 110 1Pi 8Ei 9Ei 16E 1.k 00012 +0.50 2000m 1024m`)
	texts = append(texts, "", " 1", "1 ")
	var lines []any
	for _, text := range texts {
		q, err := resource.ParseQuantity(text)
		line := map[string]any{"text": text, "error": errorText(err)}
		if err == nil {
			sum := q.DeepCopy()
			sum.Add(resource.MustParse("1500m"))
			less := q.DeepCopy()
			less.Sub(resource.MustParse("1Ki"))
			other := resource.MustParse(text)
			line["canonical"], line["value"], line["milli"] = other.String(), q.Value(), q.MilliValue()
			line["plus"], line["minus"], line["compared"] = sum.String(), less.String(), q.Cmp(resource.MustParse("1"))
		}
		lines = append(lines, line)
	}
	return lines
}

func selectors() []any {
	set := labels.Set{"a": "b", "c": "5", "x/y": "", "tier": "front"}
	var lines []any
	for _, text := range []string{"", "a", "!a", "a=b", "a==b", "a!=b", "a in (b)", "a in (b,c)", "a in (z, b )", "a notin (b,c)", "q notin (b)", "a=", "a in ()", "a in (,b)",
		"c>4", "c>5", "c<6", "c>x", "a>1", "a=b,c=5", "a = b , c=5", "a,!q,tier in (front,back)", "x/y", "x/y=", ",", "a,", ",a", "a=b,", "a in b", "a in (b", "a b", "!", "!a=b",
		"a=b=c", "=b", "(a)", "a!b", "-a", "a=-b", "a/b/c=d", "A_b.c-d=E_f", "in in (in)", "notin", "a=in", "c>5,c<7", "é=1", "a=é", "a notin (c)", "zz!=1", "a=b c",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=b"} {
		s, err := labels.Parse(text)
		line := map[string]any{"of": "labels", "text": text, "error": errorText(err)}
		if err == nil {
			line["string"], line["matches"] = s.String(), s.Matches(set)
		}
		lines = append(lines, line)
	}
	place := fields.Set{"metadata.name": "n", "spec.nodeName": "", "status.phase": "Running", "odd": `a,b=c\d`}
	for _, text := range []string{"", "metadata.name=n", "metadata.name==n", "metadata.name!=n", "spec.nodeName=", "spec.nodeName!=", "metadata.name=n,status.phase!=Failed", "metadata.name", "a,b",
		`odd=a\,b\=c\\d`, `odd=a\`, `odd=\x`, "=x", "metadata.name=n,", ",", "metadata.name = n", "a=b=c", "!metadata.name"} {
		s, err := fields.ParseSelector(text)
		line := map[string]any{"of": "fields", "text": text, "error": errorText(err)}
		if err == nil {
			line["string"], line["matches"] = s.String(), s.Matches(place)
		}
		lines = append(lines, line)
	}
	for _, text := range []string{`{}`, `{"matchLabels":{"a":"b"}}`, `{"matchLabels":{"a":"z"}}`, `{"matchExpressions":[{"key":"a","operator":"In","values":["b"]}]}`,
		`{"matchExpressions":[{"key":"a","operator":"NotIn","values":["b"]}]}`, `{"matchExpressions":[{"key":"q","operator":"Exists"}]}`, `{"matchExpressions":[{"key":"q","operator":"DoesNotExist"}]}`,
		`{"matchExpressions":[{"key":"q","operator":"Foo"}]}`, `{"matchExpressions":[{"key":"q","operator":"In"}]}`, `{"matchExpressions":[{"key":"q","operator":"Exists","values":["a"]}]}`,
		`{"matchLabels":{"c":"5","a":"b"},"matchExpressions":[{"key":"tier","operator":"In","values":["x","front"]}]}`, `{"matchLabels":{"a b":"c"}}`} {
		var object metav1.LabelSelector
		check(json.Unmarshal([]byte(text), &object))
		s, err := metav1.LabelSelectorAsSelector(&object)
		line := map[string]any{"of": "object", "text": text, "error": errorText(err)}
		if err == nil {
			line["string"], line["matches"] = s.String(), s.Matches(set)
		}
		lines = append(lines, line)
	}
	return lines
}

func names() []any {
	long := strings.Repeat("a", 64)
	var lines []any
	for _, text := range []string{"", "a", "A", "a-b", "-a", "a-", "a.b", "a..b", "1a", "a_b", "a/b", "/b", "a/", "a/b/c", ".", "..", "a%b", long, strings.Repeat("a", 254), "a.b/c", "A.b/c", "a b", "é", "..a", "a.", "x." + long} {
		for rule, errors := range map[string][]string{
			"dns1123_label": validation.IsDNS1123Label(text), "dns1123_subdomain": validation.IsDNS1123Subdomain(text), "dns1035_label": validation.IsDNS1035Label(text),
			"qualified_name": validation.IsQualifiedName(text), "label_value": validation.IsValidLabelValue(text), "config_map_key": validation.IsConfigMapKey(text),
			"path_segment": pathSegment(text),
		} {
			if errors == nil {
				errors = []string{}
			}
			lines = append(lines, map[string]any{"rule": rule, "text": text, "errors": errors})
		}
	}
	return sorted(lines)
}

func ages() []any {
	var lines []any
	for _, seconds := range []int64{-5, -1, 0, 1, 59, 60, 119, 120, 121, 179, 180, 599, 600, 601, 3599, 3600, 10799, 10800, 10860, 28799, 28800, 172799, 172800, 176400, 691199, 691200, 63071999, 63072000, 70000000, 252287999, 252288000, 400000000} {
		lines = append(lines, map[string]any{"seconds": seconds, "human": duration.HumanDuration(time.Duration(seconds) * time.Second), "go": (time.Duration(seconds)*time.Second + 1500*time.Microsecond).String()})
	}
	return lines
}

// decodings gives what the strict JSON decoder makes of bodies right and wrong.
func decodings() []any {
	all := allKinds()
	strict := jsonserializer.NewSerializerWithOptions(jsonserializer.DefaultMetaFactory, all, all, jsonserializer.SerializerOptions{Strict: true})
	var lines []any
	for _, text := range []string{
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":3,"foo":1}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","foo":1,"metadata":{"name":"a","bar":{}},"spec":{"template":{"spec":{"containers":[{"name":"c","imagee":"x"},{"name":"d","y":1}]}}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":"3"}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":1.5}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"replicas":3000000000}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":[],"spec":{}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":1},"spec":{}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":{"a":1}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"labels":[]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":{}}}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"hostNetwork":"yes"}}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"dnsPolicy":5}}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":"x"}}}]}}}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"cpu":1,"memory":"1Gi"}}}]}}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1","a":"2"},"metadata":{"name":"x","name":"y"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","Data":{"a":"1"},"metadata":{"name":"x"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":null,"metadata":{"name":"x","labels":null,"annotations":{}}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","binaryData":{"a":"!!"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1"}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":"yesterday"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":null}}`,
		`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"c","ports":[{"containerPort":80,"containerPort":81}]}],"containers":[]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":8080},{"port":1,"targetPort":true}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":"http"},{"port":81,"targetPort":8080}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":3000000000}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":9223372036854775808}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":18446744073709551616}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":1.0}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":1e3}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":1E400}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":[]}]}}`,
		`{"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80,"targetPort":{}}]}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":18446744073709551616}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":-9223372036854775809}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1.0}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":123456789.123456789}}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":1E400}}`,
		`{"apiVersion":"v1","kind":"Pod",
"spec":{"activeDeadlineSeconds": 9223372036854775808 }}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":18446744073709551615}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","data":{"a":1E400}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":9223372036854775808}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":1E400}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":true}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":[]}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"creationTimestamp":{}}}`,
		`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"resources":{"limits":{"cpu":true}}}]}}`,
		`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"resources":{"limits":{"cpu":[1]}}}]}}`,
		`{"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"resources":{"limits":{"cpu":{"a":1}}}}]}}`,
	} {
		object, _, err := strict.Decode([]byte(text), nil, nil)
		line := map[string]any{"text": text, "strict": runtime.IsStrictDecodingError(err), "error": errorText(err)}
		if object != nil {
			line["object"] = object
		}
		lines = append(lines, line)
	}
	return lines
}
