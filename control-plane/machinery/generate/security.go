package main

import (
	"encoding/json"
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

const (
	// securityPods is the number of pods that are evaluated.
	securityPods = 360
	// newestMinor is the highest minor version of the standards that pods are evaluated by, beyond
	// the last one that changes a check.
	newestMinor = 40
)

// evaluatedPod is a pod, and what the Pod Security Standards say of it: for each level the minor
// versions at which the answer changes, with the answer from there on.
type evaluatedPod struct {
	Pod        json.RawMessage `json:"pod"`
	Baseline   []evaluation    `json:"baseline"`
	Restricted []evaluation    `json:"restricted"`
}

type evaluation struct {
	Since  int    `json:"since"`
	Reason string `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// evaluatedPods gives random pods with the answers of Kubernetes' evaluator.
func evaluatedPods() []any {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	check(err)
	random := rand.New(rand.NewSource(1))
	var lines []any
	for i := 0; i < securityPods; i++ {
		text, err := json.Marshal(securedPod(random, []float64{0.01, 0.04, 0.12}[i%3]))
		check(err)
		var pod corev1.Pod
		check(json.Unmarshal(text, &pod))
		lines = append(lines, evaluatedPod{
			Pod:        text,
			Baseline:   evaluations(evaluator, api.LevelBaseline, &pod),
			Restricted: evaluations(evaluator, api.LevelRestricted, &pod),
		})
	}
	return lines
}

func evaluations(evaluator policy.Evaluator, level api.Level, pod *corev1.Pod) []evaluation {
	evaluate := func(version api.Version) evaluation {
		asked := api.LevelVersion{Level: level, Version: version}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(asked, &pod.ObjectMeta, &pod.Spec))
		return evaluation{Reason: result.ForbiddenReason(), Detail: result.ForbiddenDetail()}
	}
	var all []evaluation
	for minor := 0; minor <= newestMinor; minor++ {
		now := evaluate(api.MajorMinorVersion(1, minor))
		if len(all) > 0 {
			now.Since = all[len(all)-1].Since
		}
		if len(all) == 0 || now != all[len(all)-1] {
			now.Since = minor
			all = append(all, now)
		}
	}
	latest, last := evaluate(api.LatestVersion()), all[len(all)-1]
	if latest.Detail != last.Detail || latest.Reason != last.Reason {
		panic("the latest version is none of these")
	}
	return all
}

// podMaker makes random parts of pods; rate is how often a part is there.
type podMaker struct {
	*rand.Rand
	rate float64
}

func securedPod(random *rand.Rand, rate float64) map[string]any {
	maker := podMaker{random, rate}
	spec := map[string]any{"containers": maker.containers("c", 1+random.Intn(3))}
	metadata := map[string]any{"name": "pod"}
	maker.put(metadata, "annotations", maker.annotations)
	maker.put(spec, "initContainers", func() any { return maker.containers("init", 1+random.Intn(2)) })
	maker.put(spec, "ephemeralContainers", func() any { return maker.containers("debug", 1) })
	for _, flag := range []string{"hostNetwork", "hostPID", "hostIPC", "hostUsers"} {
		maker.put(spec, flag, maker.flag)
	}
	maker.put(spec, "os", func() any { return map[string]any{"name": maker.word("windows", "linux")} })
	if random.Intn(4) == 0 {
		spec["volumes"] = maker.volumes()
	}
	maker.often(spec, "securityContext", maker.podContext)
	return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
}

func (m *podMaker) put(in map[string]any, key string, value func() any) {
	if m.Float64() < m.rate {
		in[key] = value()
	}
}

// often puts what strict checks ask for.
func (m *podMaker) often(in map[string]any, key string, value func() any) {
	if m.Float64() < 0.8 {
		in[key] = value()
	}
}

func (m *podMaker) word(words ...string) string { return words[m.Intn(len(words))] }
func (m *podMaker) flag() any                   { return m.Intn(2) == 0 }

func (m *podMaker) words(most int, words ...string) any {
	some := []string{}
	for range 1 + m.Intn(most) {
		some = append(some, m.word(words...))
	}
	return some
}

func (m *podMaker) annotations() any {
	all := map[string]string{}
	profiles := []string{"runtime/default", "docker/default", "localhost/a", "unconfined", "", "a \"b\""}
	for _, key := range []string{
		"container.apparmor.security.beta.kubernetes.io/c0",
		"container.apparmor.security.beta.kubernetes.io/other",
		"seccomp.security.alpha.kubernetes.io/pod",
		"container.seccomp.security.alpha.kubernetes.io/c0",
		"container.seccomp.security.alpha.kubernetes.io/init0",
		"container.seccomp.security.alpha.kubernetes.io/other",
	} {
		if m.Intn(2) == 0 {
			all[key] = m.word(profiles...)
		}
	}
	return all
}

func (m *podMaker) containers(prefix string, count int) []any {
	var all []any
	for i := range count {
		container := map[string]any{"name": fmt.Sprintf("%s%d", prefix, i), "image": "image"}
		m.often(container, "securityContext", m.containerContext)
		m.put(container, "ports", func() any {
			return []any{map[string]any{"containerPort": 80, "hostPort": []int{0, 80, 8080, 9}[m.Intn(4)]},
				map[string]any{"containerPort": 81, "hostPort": 7}}[m.Intn(2):]
		})
		for _, probe := range []string{"livenessProbe", "readinessProbe", "startupProbe"} {
			m.put(container, probe, m.handler)
		}
		m.put(container, "lifecycle", func() any {
			return map[string]any{m.word("postStart", "preStop"): m.handler()}
		})
		all = append(all, container)
	}
	return all
}

func (m *podMaker) handler() any {
	host := m.word("", "127.0.0.1", "b.example")
	return map[string]any{m.word("httpGet", "tcpSocket"): map[string]any{"port": 80, "host": host}}
}

// context gives what the security contexts of pods and of containers both have.
func (m *podMaker) context() map[string]any {
	context := map[string]any{}
	m.often(context, "runAsNonRoot", func() any { return m.Intn(12) > 0 })
	m.often(context, "seccompProfile", func() any {
		return map[string]any{"type": m.word("RuntimeDefault", "Localhost", "RuntimeDefault", "RuntimeDefault", "RuntimeDefault", "RuntimeDefault", "Unconfined")}
	})
	m.put(context, "runAsUser", func() any { return m.Intn(2) })
	m.put(context, "appArmorProfile", func() any {
		return map[string]any{"type": m.word("RuntimeDefault", "Localhost", "Unconfined", "Other")}
	})
	m.put(context, "seLinuxOptions", func() any {
		options := map[string]any{}
		m.often(options, "type", func() any { return m.word("container_t", "container_engine_t", "spc_t", "a_t", "") })
		m.put(options, "user", func() any { return m.word("", "system_u") })
		m.put(options, "role", func() any { return m.word("", "system_r") })
		return options
	})
	m.put(context, "windowsOptions", func() any { return map[string]any{"hostProcess": m.flag()} })
	return context
}

func (m *podMaker) podContext() any {
	context := m.context()
	if m.Intn(6) == 0 {
		var all []any
		for range 1 + m.Intn(3) {
			name := m.word("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_local_reserved_ports",
				"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem", "kernel.msgmax")
			all = append(all, map[string]any{"name": name, "value": "1"})
		}
		context["sysctls"] = all
	}
	return context
}

func (m *podMaker) containerContext() any {
	context := m.context()
	m.put(context, "privileged", m.flag)
	m.put(context, "procMount", func() any { return m.word("Default", "Unmasked") })
	m.often(context, "allowPrivilegeEscalation", func() any { return m.Intn(12) == 0 })
	m.often(context, "capabilities", func() any {
		capabilities := map[string]any{}
		m.often(capabilities, "drop", func() any { return m.words(2, "ALL", "ALL", "ALL", "ALL", "KILL") })
		if m.Intn(4) == 0 {
			capabilities["add"] = m.words(3, "NET_BIND_SERVICE", "NET_BIND_SERVICE", "NET_BIND_SERVICE", "CHOWN", "NET_RAW", "SYS_ADMIN", "ALL")
		}
		return capabilities
	})
	return context
}

func (m *podMaker) volumes() any {
	var all []any
	for i := range 1 + m.Intn(3) {
		volume := map[string]any{"name": fmt.Sprintf("v%d", i)}
		// One volume has no source.
		kind := m.word("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
			"hostPath", "hostPath", "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd",
			"flexVolume", "cinder", "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk",
			"photonPersistentDisk", "portworxVolume", "scaleIO", "storageos", "")
		if kind != "" {
			volume[kind] = map[string]any{}
		}
		all = append(all, volume)
	}
	return all
}
