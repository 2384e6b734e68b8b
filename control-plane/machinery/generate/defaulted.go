package main

import (
	"encoding/json"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	admissionregistration "k8s.io/kubernetes/pkg/apis/admissionregistration/v1"
	apps "k8s.io/kubernetes/pkg/apis/apps/v1"
	autoscaling1 "k8s.io/kubernetes/pkg/apis/autoscaling/v1"
	autoscaling2 "k8s.io/kubernetes/pkg/apis/autoscaling/v2"
	batch "k8s.io/kubernetes/pkg/apis/batch/v1"
	certificates "k8s.io/kubernetes/pkg/apis/certificates/v1"
	core "k8s.io/kubernetes/pkg/apis/core/v1"
	discovery "k8s.io/kubernetes/pkg/apis/discovery/v1"
	networking "k8s.io/kubernetes/pkg/apis/networking/v1"
	rbac "k8s.io/kubernetes/pkg/apis/rbac/v1"
	scheduling "k8s.io/kubernetes/pkg/apis/scheduling/v1"
	storage "k8s.io/kubernetes/pkg/apis/storage/v1"
)

const template = `"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"nginx"}]}`

var minimal = []string{
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"hostNetwork":true,"initContainers":[{"name":"i","image":"a/b:latest","ports":[{"containerPort":1}]}],"containers":[{"name":"c","image":"r:5000/x","ports":[{"containerPort":80}],
	"resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m"}},"env":[{"name":"e","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
	"livenessProbe":{"httpGet":{"port":80}},"readinessProbe":{"tcpSocket":{"port":1},"timeoutSeconds":5},"startupProbe":{"grpc":{"port":1}},"lifecycle":{"preStop":{"httpGet":{"port":"x"}},"postStart":{"httpGet":{"port":1,"path":"/y"}}}},
	{"name":"d","image":"a:v1"},{"name":"e","image":"a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],
	"volumes":[{"name":"v"},{"name":"s","secret":{"secretName":"x"}},{"name":"m","configMap":{"name":"x"}},{"name":"d","downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.labels"}}]}},
	{"name":"p","projected":{"sources":[{"serviceAccountToken":{"path":"t"}},{"downwardAPI":{"items":[{"path":"p","fieldRef":{"fieldPath":"metadata.labels"}}]}}]}},{"name":"h","hostPath":{"path":"/x"}},{"name":"i","iscsi":{"targetPortal":"t","iqn":"i","lun":0}},
	{"name":"r","rbd":{"monitors":["a"],"image":"i"}},{"name":"a","azureDisk":{"diskName":"d","diskURI":"u"}},{"name":"o","scaleIO":{"gateway":"g","system":"s","secretRef":null}},{"name":"ep","ephemeral":{"volumeClaimTemplate":{"spec":{}}}}],
	"tolerations":[{"key":"a"}],"topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"k","whenUnsatisfiable":"DoNotSchedule"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x:latest","resources":{"limits":{"cpu":"1500m"}}}],"restartPolicy":"Never","dnsPolicy":"Default","securityContext":{"runAsUser":1},"enableServiceLinks":false,"terminationGracePeriodSeconds":0,"serviceAccountName":"q"}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"serviceAccount":"q","containers":[{"name":"c","image":"x"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"serviceAccount":"q","serviceAccountName":"","containers":[{"name":"c","image":"x"}]}}`,
	`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"serviceAccount":"q","serviceAccountName":"r","containers":[{"name":"c","image":"x"}]}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"serviceAccountName":"q","containers":[{"name":"c","image":"x"}]}}}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{` + template + `}}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":0,"strategy":{"type":"Recreate"},"selector":{"matchLabels":{"a":"b"}},"template":{` + template + `}}}`,
	`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"strategy":{"rollingUpdate":{"maxSurge":1}},"selector":{"matchLabels":{"a":"b"}},"template":{` + template + `}}}`,
	`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{` + template + `}}}`,
	`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"d"},"spec":{"serviceName":"s","selector":{"matchLabels":{"a":"b"}},"template":{` + template + `},"volumeClaimTemplates":[{"metadata":{"name":"v"},"spec":{"resources":{"requests":{"storage":"1Gi"}}}}]}}`,
	`{"apiVersion":"apps/v1","kind":"DaemonSet","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{` + template + `}}}`,
	`{"apiVersion":"v1","kind":"ReplicationController","metadata":{"name":"d"},"spec":{"template":{` + template + `}}}`,
	`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"d"},"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}`,
	`{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"d","labels":{"x":"y"}},"spec":{"parallelism":3,"completionMode":"Indexed","backoffLimitPerIndex":1,"podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"x"}]}]},"template":{` + template + `}}}`,
	`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"d"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"ports":[{"port":80}],"selector":{"a":"b"}}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"NodePort","ports":[{"port":80,"targetPort":"x","protocol":"UDP"}]}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"LoadBalancer","sessionAffinity":"ClientIP","ports":[{"port":80,"targetPort":0}]}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"ExternalName","externalName":"x.y"}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}`,
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"externalIPs":["1.1.1.1"],"ports":[{"port":80}]}}`,
	`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}`, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"s"}}`,
	`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n","labels":{"a":"b"}}}`,
	`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"status":{"capacity":{"cpu":"1","memory":"1Gi"}}}`, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}`,
	`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"n"},"spec":{"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x"}}}`,
	`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"n"},"spec":{"accessModes":["ReadWriteOnce"],"dataSource":{"kind":"PersistentVolumeClaim","name":"x"}}}`,
	`{"apiVersion":"v1","kind":"LimitRange","metadata":{"name":"n"},"spec":{"limits":[{"type":"Container","max":{"cpu":"2"},"default":{"memory":"1Gi"},"min":{"cpu":"1","memory":"1Mi"}},{"type":"Pod","max":{"cpu":"1"}}]}}`,
	`{"apiVersion":"v1","kind":"Endpoints","metadata":{"name":"n"},"subsets":[{"addresses":[{"ip":"1.1.1.1"}],"ports":[{"port":1}]}]}`,
	`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"n"},"addressType":"IPv4","endpoints":[],"ports":[{"port":1},{"name":"x","protocol":"UDP"}]}`,
	`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"n"}}`, `{"apiVersion":"v1","kind":"PodTemplate","metadata":{"name":"n"},"template":{` + template + `}}`,
	`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3}}`,
	`{"apiVersion":"autoscaling/v2","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3,"behavior":{"scaleUp":{"stabilizationWindowSeconds":5},"scaleDown":{}}}}`,
	`{"apiVersion":"autoscaling/v1","kind":"HorizontalPodAutoscaler","metadata":{"name":"h"},"spec":{"scaleTargetRef":{"kind":"Deployment","name":"d"},"maxReplicas":3}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"n"},"spec":{"podSelector":{},"egress":[{"ports":[{"port":1}]}],"ingress":[{"ports":[{"port":1}]}]}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"n"},"spec":{"podSelector":{}}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"IngressClass","metadata":{"name":"n"},"spec":{"parameters":{"kind":"k","name":"n"}}}`,
	`{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"n"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":1}}}}}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","metadata":{"name":"n"},"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"ServiceAccount","name":"s"},{"kind":"Group","name":"g"}]}`,
	`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"n"},"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"User","name":"u"}]}`,
	`{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","metadata":{"name":"n"},"value":1}`,
	`{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"n"},"provisioner":"x"}`, `{"apiVersion":"storage.k8s.io/v1","kind":"CSIDriver","metadata":{"name":"n"},"spec":{}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"n"},"webhooks":[{"name":"w","clientConfig":{"service":{"namespace":"a","name":"b"}},"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}]}]}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration","metadata":{"name":"n"},"webhooks":[{"name":"w","clientConfig":{}}]}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"n"},"spec":{"matchConstraints":{"resourceRules":[{"operations":["CREATE"]}]}}}`,
	`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"n"},"spec":{"matchResources":{}}}`,
	`{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"n"},"spec":{"signerName":"a/b"}}`,
}

// throughInternal converts an object to the form the apiserver works with, and back: that gives a field and its
// former name the same value.
func throughInternal(object runtime.Object) runtime.Object {
	gv := object.GetObjectKind().GroupVersionKind().GroupVersion()
	internal, err := legacyscheme.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal})
	check(err)
	converted, err := legacyscheme.Scheme.ConvertToVersion(internal, gv)
	check(err)
	return converted
}

// defaulted gives what Go's own functions fill into objects that say little.
func defaulted() []any {
	all := allKinds()
	for _, register := range []func(*runtime.Scheme) error{apps.RegisterDefaults, autoscaling1.RegisterDefaults, autoscaling2.RegisterDefaults, admissionregistration.RegisterDefaults, batch.RegisterDefaults,
		certificates.RegisterDefaults, core.RegisterDefaults, discovery.RegisterDefaults, networking.RegisterDefaults, rbac.RegisterDefaults, scheduling.RegisterDefaults, storage.RegisterDefaults} {
		check(register(all))
	}
	decoder := serializer.NewCodecFactory(all).UniversalDeserializer()
	var lines []any
	for _, text := range minimal {
		object, _, err := decoder.Decode([]byte(text), nil, nil)
		check(err)
		all.Default(object)
		switch object.(type) {
		case *corev1.Pod, *appsv1.Deployment:
			object = throughInternal(object)
		}
		lines = append(lines, map[string]any{"before": json.RawMessage(text), "after": object})
	}
	return lines
}
