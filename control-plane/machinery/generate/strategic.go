package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"sort"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
)

func pathSegment(text string) []string { return path.IsValidPathSegmentName(text) }

func sorted(lines []any) []any {
	sort.Slice(lines, func(a, b int) bool { return fmt.Sprint(lines[a]) < fmt.Sprint(lines[b]) })
	return lines
}

const pod = `{"metadata":{"name":"p","labels":{"a":"1","b":"2"},"finalizers":["x","y"],"ownerReferences":[{"uid":"u1","name":"n1"},{"uid":"u2","name":"n2"}]},
	"spec":{"containers":[{"name":"a","image":"i1","env":[{"name":"E","value":"1"},{"name":"F","value":"2"}],"ports":[{"containerPort":80,"name":"w"}],"args":["x"]},{"name":"b","image":"i2"}],
	"volumes":[{"name":"v","emptyDir":{"medium":"Memory"}},{"name":"w","secret":{"secretName":"s"}}],"tolerations":[{"key":"k"}],"nodeSelector":{"z":"1"}},
	"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Other","status":"False"}],"podIPs":[{"ip":"1.1.1.1"}]}}`
const deployment = `{"metadata":{"name":"d"},"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"template":{"spec":{"containers":[{"name":"a","image":"i"}]}}}}`

var podPatches = []string{
	`{}`, `{"metadata":{"labels":{"a":null,"c":"3"}}}`, `{"metadata":{"labels":null}}`, `{"metadata":{"labels":{"$patch":"delete"}}}`, `{"metadata":{"labels":{"$patch":"replace","q":"1"}}}`,
	`{"metadata":{"labels":{"$patch":"merge","q":"1"}}}`, `{"metadata":{"labels":{"$patch":"bogus"}}}`, `{"$patch":"delete"}`, `{"$patch":"replace","metadata":{"name":"q"}}`,
	`{"spec":{"containers":[{"name":"a","image":"new"}]}}`, `{"spec":{"containers":[{"name":"c","image":"new"}]}}`, `{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}`,
	`{"spec":{"containers":[{"name":"zz","$patch":"delete"}]}}`, `{"spec":{"containers":[{"$patch":"replace"},{"name":"z"}]}}`, `{"spec":{"containers":[{"$patch":"replace"}]}}`,
	`{"spec":{"containers":[{"name":"a","$patch":"replace","image":"only"}]}}`, `{"spec":{"containers":[{"image":"nokey"}]}}`, `{"spec":{"containers":[{"name":"a","image":"x"},{"name":"b","$patch":"delete"},{"name":"n"}]}}`,
	`{"spec":{"containers":[{"name":"a","env":[{"name":"E","$patch":"delete"},{"name":"G","value":"3"}]}]}}`, `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":81}]}]}}`,
	`{"spec":{"containers":[{"name":"a","args":["y","z"]}]}}`, `{"spec":{"containers":[{"name":"a","args":null}]}}`, `{"spec":{"containers":null}}`, `{"spec":{"containers":[]}}`,
	`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"n"},{"name":"a"}],"containers":[{"name":"n","image":"i"}]}}`,
	`{"spec":{"$setElementOrder/containers":[{"name":"b"}],"containers":[{"name":"n"}]}}`, `{"spec":{"$setElementOrder/containers":[{"name":"a"},{"name":"b"}],"containers":[{"name":"b","image":"q"},{"name":"a","image":"r"}]}}`,
	`{"metadata":{"finalizers":["z"]}}`, `{"metadata":{"finalizers":["x","z"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"finalizers":["w"]}}`,
	`{"metadata":{"$setElementOrder/finalizers":["y","x"]}}`, `{"metadata":{"$setElementOrder/finalizers":["n","y","x"],"finalizers":["n"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x","y"]}}`,
	`{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"],"$setElementOrder/finalizers":["q","y"],"finalizers":["q"]}}`,
	`{"metadata":{"ownerReferences":[{"uid":"u1","$patch":"delete"}]}}`, `{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"u2"},{"uid":"u3","name":"n3"}],"uid":"abc"}}`,
	`{"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/x"}}]}}`, `{"spec":{"volumes":[{"name":"v","$retainKeys":["name"],"hostPath":{"path":"/x"}}]}}`,
	`{"spec":{"volumes":[{"name":"n","$retainKeys":["name","emptyDir"],"emptyDir":{}}]}}`, `{"spec":{"tolerations":[{"key":"q"}]}}`, `{"spec":{"nodeSelector":{"y":"2"}}}`, `{"spec":{"nodeSelector":{"z":null}}}`,
	`{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`, `{"status":{"$setElementOrder/conditions":[{"type":"Other"},{"type":"Ready"}],"conditions":[{"type":"Ready","status":"Q"}]}}`,
	`{"status":{"conditions":[{"type":"New","status":"True"}]}}`, `{"spec":{"unknown":{"a":[1]}}}`, `{"spec":"text"}`, `{"spec":{"containers":"text"}}`, `{"spec":{"containers":{"a":1}}}`, `{"spec":{"containers":["a"]}}`,
	`{"metadata":{"finalizers":[{"a":1}]}}`, `{"spec":{"$retainKeys":["containers"]}}`, `{"spec":{"$retainKeys":["containers","hostname"],"hostname":"h"}}`, `{"metadata":{"labels":{"a":{"b":1}}}}`, `{"spec":{"unschedulable":null,"affinity":{"nodeAffinity":null,"podAffinity":{}}}}`,
	`{"spec":{"affinity":{"$patch":"delete"}}}`, `{"spec":{"securityContext":{"$patch":"replace","runAsUser":1}}}`, `{"spec":{"volumes":[{"name":"q","emptyDir":null}]}}`, `{"spec":{"$setElementOrder/containers":["a"]}}`,
	`{"spec":{"$setElementOrder/containers":"a"}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":"x"}}`, `{"spec":{"containers":[{"name":"b","env":[{"name":"X","value":"y"}]}]}}`, `{"spec":{"containers":[{"name":null,"image":"x"}]}}`,
}

var deploymentPatches = []string{
	`{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`, `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`, `{"spec":{"paused":true}}`, `{"spec":{"paused":null}}`,
	`{"spec":{"strategy":{"$retainKeys":["rollingUpdate","type"],"rollingUpdate":{"maxUnavailable":"25%"}}}}`, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`,
	`{"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a","image":"j"}]}}}}`, `{"spec":{"template":{"$patch":"replace","spec":{"hostname":"h"}}}}`,
}

// strategicPatches gives what Go's own engine makes of patches by hand, and of patches that it
// computes between two arbitrary pods.
func strategicPatches() []any {
	var lines []any
	add := func(kind, original, patch string, of any) {
		result, err := strategicpatch.StrategicMergePatch([]byte(original), []byte(patch), of)
		line := map[string]any{"kind": kind, "original": json.RawMessage(original), "patch": json.RawMessage(patch), "error": errorText(err)}
		if err == nil {
			line["result"] = json.RawMessage(result)
		}
		lines = append(lines, line)
	}
	for _, patch := range podPatches {
		add("Pod", pod, patch, corev1.Pod{})
		add("Pod", `{"metadata":{"name":"empty"}}`, patch, corev1.Pod{})
	}
	for _, patch := range deploymentPatches {
		add("Deployment", deployment, patch, appsv1.Deployment{})
	}
	random := rand.New(rand.NewSource(7))
	for range 50 {
		from, to := randomPod(random), randomPod(random)
		patch, err := strategicpatch.CreateTwoWayMergePatch(from, to, corev1.Pod{})
		check(err)
		add("Pod", string(randomPod(random)), string(patch), corev1.Pod{})
		add("Pod", string(from), string(patch), corev1.Pod{})
	}
	return lines
}

func randomPod(random *rand.Rand) []byte {
	pick := func(words ...string) []string {
		random.Shuffle(len(words), func(a, b int) { words[a], words[b] = words[b], words[a] })
		return words[:random.Intn(len(words)+1)]
	}
	object := map[string]any{}
	metadata := map[string]any{"finalizers": pick("f1", "f2", "f3", "f4")}
	labels := map[string]any{}
	for _, key := range pick("a", "b", "c") {
		labels[key] = fmt.Sprint(random.Intn(2))
	}
	metadata["labels"] = labels
	object["metadata"] = metadata
	containers, volumes := []any{}, []any{}
	for _, name := range pick("a", "b", "c", "d") {
		env := []any{}
		for _, key := range pick("E", "F", "G") {
			env = append(env, map[string]any{"name": key, "value": fmt.Sprint(random.Intn(2))})
		}
		containers = append(containers, map[string]any{"name": name, "image": fmt.Sprint("i", random.Intn(2)), "env": env, "args": pick("x", "y")})
	}
	for _, name := range pick("v", "w") {
		source := []string{"emptyDir", "secret"}[random.Intn(2)]
		volumes = append(volumes, map[string]any{"name": name, source: map[string]any{}})
	}
	object["spec"] = map[string]any{"containers": containers, "volumes": volumes, "hostname": fmt.Sprint(random.Intn(2))}
	text, err := json.Marshal(object)
	check(err)
	return text
}
