package main

import (
	"encoding/json"
	"math/rand"
	"sort"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	corev1conversion "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"
	clocktesting "k8s.io/utils/clock/testing"
)

// quotaNow is the time at which usage is measured.
var quotaNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// quotaNames are the names that a quota may have for what pods, services and claims use, and some
// that none of them use.
var quotaNames = []corev1.ResourceName{
	"pods", "count/pods", "cpu", "requests.cpu", "limits.cpu", "memory", "requests.memory", "limits.memory",
	"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage",
	"hugepages-2Mi", "requests.hugepages-2Mi", "limits.hugepages-2Mi", "requests.example.com/gpu", "example.com/gpu", "limits.example.com/gpu",
	"requests.kubernetes.io/thing", "requests.deviceclass.resource.kubernetes.io/fast",
	"services", "count/services", "services.nodeports", "services.loadbalancers",
	"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage", "storage",
	"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims", "gold.storageclass.storage.k8s.io/pods",
	"count/resourceclaims.resource.k8s.io", "fast.deviceclass.resource.k8s.io/devices", "configmaps", "count/configmaps",
}

var quotaScopes = []corev1.ScopedResourceSelectorRequirement{
	{ScopeName: "Terminating", Operator: "Exists"}, {ScopeName: "NotTerminating", Operator: "Exists"},
	{ScopeName: "BestEffort", Operator: "Exists"}, {ScopeName: "NotBestEffort", Operator: "Exists"},
	{ScopeName: "CrossNamespacePodAffinity", Operator: "Exists"},
	{ScopeName: "PriorityClass", Operator: "Exists"}, {ScopeName: "PriorityClass", Operator: "DoesNotExist"},
	{ScopeName: "PriorityClass", Operator: "In", Values: []string{"high", "low"}}, {ScopeName: "PriorityClass", Operator: "NotIn", Values: []string{"high"}},
	{ScopeName: "VolumeAttributesClass", Operator: "Exists"}, {ScopeName: "VolumeAttributesClass", Operator: "DoesNotExist"},
	{ScopeName: "VolumeAttributesClass", Operator: "In", Values: []string{"quick"}}, {ScopeName: "VolumeAttributesClass", Operator: "NotIn", Values: []string{"quick"}},
}

// usages gives what Kubernetes' evaluators say of random pods, services and claims.
func usages() []any {
	random := chooser{rand.New(rand.NewSource(18))}
	pods := core.NewPodEvaluator(nil, clocktesting.NewFakeClock(quotaNow))
	services, claims := core.NewServiceEvaluator(nil), core.NewPersistentVolumeClaimEvaluator(nil)
	devices := core.NewResourceClaimEvaluator(nil, extendedresourcecache.NewExtendedResourceCache(klog.Background()), nil, nil)
	lines := []any{map[string]any{"names": quotaNames, "scopes": quotaScopes}}
	for _, evaluator := range []quota.Evaluator{pods, services, claims, devices} {
		counts := evaluator.MatchingResources(quotaNames)
		sort.Slice(counts, func(a, b int) bool { return counts[a] < counts[b] })
		group := evaluator.GroupResource()
		lines = append(lines, map[string]any{"group": group.Group, "plural": group.Resource, "counts": quota.Intersection(counts, counts)})
	}
	for range 120 {
		lines = append(lines, usageOf(pods, random.pod(), random))
	}
	for range 30 {
		lines = append(lines, usageOf(services, random.service(), random))
	}
	for range 40 {
		lines = append(lines, usageOf(claims, random.claim(), random))
	}
	for range 20 {
		lines = append(lines, usageOf(devices, random.devices(), random))
	}
	return lines
}

func usageOf(evaluator quota.Evaluator, object runtime.Object, random chooser) any {
	usage, err := evaluator.Usage(object)
	check(err)
	group := evaluator.GroupResource()
	for name := range usage {
		// Devices of claims under the names of extended resources depend on more than the claim.
		if group.Resource == "resourceclaims" && strings.HasPrefix(string(name), "requests.") {
			delete(usage, name)
		}
	}
	matching := []int{}
	for at, scope := range quotaScopes {
		matched, err := evaluator.MatchingScopes(object, []corev1.ScopedResourceSelectorRequirement{scope})
		check(err)
		if len(matched) > 0 {
			matching = append(matching, at)
		}
	}
	var required []corev1.ResourceName
	for _, name := range quotaNames[:11] {
		if random.Intn(3) == 0 {
			required = append(required, name)
		}
	}
	return map[string]any{
		"group": group.Group, "plural": group.Resource, "object": object, "usage": usage,
		"matching": matching, "required": required, "unspecified": errorText(evaluator.Constraints(required, object)),
	}
}

// limits gives what limit ranges make of random pods and claims, and say about them.
func limits() []any {
	random := chooser{rand.New(rand.NewSource(81))}
	var lines []any
	for range 100 {
		limitRange := random.limitRange()
		pod := random.pod()
		pod.Status, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = corev1.PodStatus{}, nil, nil
		before, err := json.Marshal(pod)
		check(err)
		var internal api.Pod
		check(corev1conversion.Convert_v1_Pod_To_core_Pod(pod, &internal, nil))
		check(limitranger.PodMutateLimitFunc(limitRange, &internal))
		why := errorText(limitranger.PodValidateLimitFunc(limitRange, &internal))
		var after corev1.Pod
		check(corev1conversion.Convert_core_Pod_To_v1_Pod(&internal, &after, nil))
		lines = append(lines, map[string]any{"range": limitRange, "plural": "pods", "object": json.RawMessage(before), "after": map[string]any{
			"annotations": after.Annotations, "containers": resourcesOf(after.Spec.Containers), "initContainers": resourcesOf(after.Spec.InitContainers),
		}, "why": why})
	}
	for range 30 {
		limitRange, claim := random.limitRange(), random.claim()
		var internal api.PersistentVolumeClaim
		check(corev1conversion.Convert_v1_PersistentVolumeClaim_To_core_PersistentVolumeClaim(claim, &internal, nil))
		why := errorText(limitranger.PersistentVolumeClaimValidateLimitFunc(limitRange, &internal))
		lines = append(lines, map[string]any{"range": limitRange, "plural": "persistentvolumeclaims", "object": claim, "why": why})
	}
	return lines
}

func resourcesOf(containers []corev1.Container) []corev1.ResourceRequirements {
	all := []corev1.ResourceRequirements{}
	for _, container := range containers {
		all = append(all, container.Resources)
	}
	return all
}

// chooser makes random objects.
type chooser struct{ *rand.Rand }

func (c chooser) one(of ...string) string { return of[c.Intn(len(of))] }

func (c chooser) amounts(chance int, names ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		if c.Intn(100) < chance {
			text := c.one("0", "1", "2", "100m", "250m", "1500m", "64Mi", "1Gi", "1G", "1e3", "3")
			list[corev1.ResourceName(name)] = resource.MustParse(text)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list
}

func (c chooser) resources() corev1.ResourceRequirements {
	if c.Intn(5) == 0 {
		return corev1.ResourceRequirements{}
	}
	names := []string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/gpu", "deviceclass.resource.kubernetes.io/fast"}
	return corev1.ResourceRequirements{Requests: c.amounts(40, names...), Limits: c.amounts(40, names...)}
}

func (c chooser) containers(prefix string, most int) []corev1.Container {
	var all []corev1.Container
	for at := range c.Intn(most + 1) {
		container := corev1.Container{Name: prefix + strconv.Itoa(at), Image: "i", Resources: c.resources()}
		if always := corev1.ContainerRestartPolicyAlways; prefix == "i" && c.Intn(2) == 0 {
			container.RestartPolicy = &always
		}
		all = append(all, container)
	}
	return all
}

func (c chooser) statuses(of []corev1.Container) []corev1.ContainerStatus {
	var all []corev1.ContainerStatus
	for _, container := range of {
		status := corev1.ContainerStatus{Name: container.Name}
		if c.Intn(2) == 0 {
			resources := c.resources()
			status.Resources, status.AllocatedResources = &resources, c.amounts(40, "cpu", "memory")
		}
		all = append(all, status)
	}
	return all
}

func (c chooser) pod() *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n"}}
	pod.Spec.Containers, pod.Spec.InitContainers = c.containers("c", 3), c.containers("i", 3)
	pod.Spec.PriorityClassName = c.one("", "", "high", "low", "other")
	pod.Status.Phase = corev1.PodPhase(c.one("Pending", "Running", "Running", "Running", "Running", "Succeeded", "Failed"))
	if c.Intn(3) == 0 {
		seconds := int64(c.Intn(3) - 1)
		pod.Spec.ActiveDeadlineSeconds = &seconds
	}
	if c.Intn(4) == 0 {
		resources := corev1.ResourceRequirements{Requests: c.amounts(50, "cpu", "memory", "hugepages-2Mi"), Limits: c.amounts(50, "cpu", "memory", "hugepages-2Mi")}
		pod.Spec.Resources = &resources
	}
	if c.Intn(4) == 0 {
		pod.Spec.Overhead = c.amounts(70, "cpu", "memory", "ephemeral-storage")
	}
	if c.Intn(3) == 0 {
		pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = c.statuses(pod.Spec.Containers), c.statuses(pod.Spec.InitContainers)
		if c.Intn(2) == 0 {
			pod.Status.Conditions = []corev1.PodCondition{{Type: "PodResizePending", Reason: c.one("Infeasible", "Deferred")}}
		}
	}
	if c.Intn(4) == 0 {
		pod.Status.QOSClass = corev1.PodQOSClass(c.one("BestEffort", "Burstable"))
	}
	if c.Intn(5) == 0 {
		seconds := int64(30)
		pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: quotaNow.Add(-time.Duration(c.Intn(60)) * time.Second)}, &seconds
	}
	if c.Intn(3) == 0 {
		pod.Spec.Affinity = c.affinity()
	}
	return pod
}

func (c chooser) affinity() *corev1.Affinity {
	term := corev1.PodAffinityTerm{TopologyKey: "k"}
	switch c.Intn(3) {
	case 0:
		term.Namespaces = []string{"other"}
	case 1:
		term.NamespaceSelector = &metav1.LabelSelector{}
	}
	switch c.Intn(4) {
	case 0:
		return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	case 1:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
	case 2:
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}}
	}
	return &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: term}}}}
}

func (c chooser) service() *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "n"}}
	service.Spec.Type = corev1.ServiceType(c.one("", "ClusterIP", "NodePort", "LoadBalancer", "LoadBalancer", "ExternalName"))
	for at := range c.Intn(4) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Port: int32(at + 1), NodePort: int32(c.Intn(2) * 30000)})
	}
	if c.Intn(2) == 0 {
		allocates := c.Intn(2) == 0
		service.Spec.AllocateLoadBalancerNodePorts = &allocates
	}
	return service
}

func (c chooser) claim() *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}}
	claim.Spec.Resources.Requests = c.amounts(80, "storage")
	if class := c.one("", "gold", "none"); class != "none" {
		claim.Spec.StorageClassName = &class
	}
	if c.Intn(4) == 0 {
		claim.Annotations = map[string]string{"volume.beta.kubernetes.io/storage-class": c.one("", "silver")}
	}
	if class := c.one("", "quick", "slow", "none"); class != "none" {
		claim.Spec.VolumeAttributesClassName = &class
	}
	if c.Intn(3) == 0 {
		class := c.one("quick", "slow")
		claim.Status.CurrentVolumeAttributesClassName = &class
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: c.one("", "quick", "slow")}
	}
	if c.Intn(2) == 0 {
		claim.Status.AllocatedResources = c.amounts(70, "storage")
	}
	return claim
}

func (c chooser) devices() *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "n"}}
	for at := range c.Intn(4) {
		request := resourcev1.DeviceRequest{Name: "r" + strconv.Itoa(at)}
		if c.Intn(2) == 0 {
			exact := resourcev1.ExactDeviceRequest{DeviceClassName: c.one("fast", "slow"), AllocationMode: resourcev1.DeviceAllocationMode(c.one("ExactCount", "ExactCount", "All", "New")), Count: int64(c.Intn(5))}
			request.Exactly = &exact
		} else {
			for range 1 + c.Intn(3) {
				request.FirstAvailable = append(request.FirstAvailable, resourcev1.DeviceSubRequest{Name: "s", DeviceClassName: c.one("fast", "slow"), AllocationMode: resourcev1.DeviceAllocationMode(c.one("ExactCount", "All", "New")), Count: int64(c.Intn(5))})
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

// limitRange names at most one resource in each list: Go reports those of one list in any order.
func (c chooser) limitRange() *corev1.LimitRange {
	limitRange := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l", Namespace: "n"}}
	for _, kind := range []string{"Container", "Pod", "PersistentVolumeClaim"} {
		one := func() corev1.ResourceList {
			name := c.one("cpu", "memory", "ephemeral-storage")
			if kind == "PersistentVolumeClaim" {
				name = "storage"
			}
			return c.amounts(50, name)
		}
		item := corev1.LimitRangeItem{Type: corev1.LimitType(kind), Min: one(), Max: one()}
		if kind != "PersistentVolumeClaim" {
			item.MaxLimitRequestRatio = one()
		}
		if kind == "Container" {
			item.Default, item.DefaultRequest = c.amounts(40, "cpu", "memory"), c.amounts(40, "cpu", "memory")
		}
		if c.Intn(4) > 0 {
			limitRange.Spec.Limits = append(limitRange.Spec.Limits, item)
		}
	}
	return limitRange
}
