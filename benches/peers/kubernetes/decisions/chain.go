package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/authorization/union"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// asked is one request, with the number of its user.
type asked struct {
	User    int
	Method  string
	URL     string
	Headers [][2]string
}

// chain sends requests (a JSON object a line) through the filters of an apiserver that follow
// authentication: RequestInfo, impersonation and authorization by the modes Node and RBAC, with
// the bootstrap policy. It prints a JSON array for each: the code and the message of a refusal, or
// 200, whom the request is served as, by which constraint, why, and for what.
func chain(given rules) {
	users := make([]*user.DefaultInfo, 0, len(given.Users))
	for _, one := range given.Users {
		users = append(users, &user.DefaultInfo{Name: one.Name, UID: one.UID, Groups: one.Groups, Extra: one.Extra})
	}
	authorizer := modes(given.Objects)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	out.SetEscapeHTML(false)
	for lines.Scan() {
		var one asked
		check(json.Unmarshal(lines.Bytes(), &one))
		check(out.Encode(answer(authorizer, users[one.User], one)))
	}
	check(lines.Err())
}

// answer has filters of its own for each request: they remember what they decided before.
func answer(decides authorizer.Authorizer, who user.Info, one asked) []any {
	var served []any
	seen := &sink{}
	factory := &request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	var handler http.Handler = http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		found, err := filters.GetAuthorizerAttributes(req.Context())
		check(err)
		as := found.GetUser()
		extra := as.GetExtra()
		if extra == nil {
			extra = map[string][]string{}
		}
		groups := as.GetGroups()
		if groups == nil {
			groups = []string{}
		}
		fields, _ := found.GetFieldSelector()
		labels, _ := found.GetLabelSelector()
		shown := []string{}
		for _, requirement := range fields {
			shown = append(shown, requirement.Field+string(requirement.Operator)+requirement.Value)
		}
		for _, requirement := range labels {
			shown = append(shown, requirement.String())
		}
		served = []any{200, as.GetName(), as.GetUID(), groups, extra, found.GetVerb(), found.GetAPIGroup(),
			found.GetResource(), found.GetSubresource(), found.GetNamespace(), found.GetName(), shown}
	})
	handler = filters.WithAuthorization(handler, decides, scheme.Codecs)
	handler = impersonation.WithConstrainedImpersonation(handler, decides, scheme.Codecs)
	inner := handler
	handler = filters.WithRequestInfo(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		ctx := audit.WithAuditContext(request.WithUser(req.Context(), who))
		context := audit.AuditContextFrom(ctx)
		check(context.Init(audit.RequestAuditConfig{Level: auditinternal.LevelMetadata}, seen))
		inner.ServeHTTP(w, req.WithContext(ctx))
		context.ProcessEventStage(ctx, auditinternal.StageResponseComplete)
	}), factory)
	req := httptest.NewRequestWithContext(context.Background(), one.Method, one.URL, nil)
	for _, header := range one.Headers {
		req.Header.Add(header[0], header[1])
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, req)
	if served == nil {
		var status metav1.Status
		if json.Unmarshal(recorder.Body.Bytes(), &status) != nil {
			status.Message = strings.TrimSpace(recorder.Body.String())
		}
		return []any{recorder.Code, status.Message}
	}
	constraint := ""
	if metadata := seen.event.AuthenticationMetadata; metadata != nil {
		constraint = metadata.ImpersonationConstraint
	}
	return append(served, constraint, seen.event.Annotations["authorization.k8s.io/reason"])
}

// sink keeps the last event.
type sink struct{ event auditinternal.Event }

func (s *sink) ProcessEvents(events ...*auditinternal.Event) bool {
	for _, event := range events {
		s.event = *event
	}
	return true
}

func modes(objects []json.RawMessage) authorizer.Authorizer {
	graph := node.NewGraph()
	var policy []json.RawMessage
	for _, text := range objects {
		var named struct{ Kind string }
		check(json.Unmarshal(text, &named))
		switch named.Kind {
		case "Pod":
			graph.AddPod(read[corev1.Pod](text))
		case "PersistentVolume":
			graph.AddPV(read[corev1.PersistentVolume](text))
		case "VolumeAttachment":
			attachment := read[storagev1.VolumeAttachment](text)
			graph.AddVolumeAttachment(attachment.Name, attachment.Spec.NodeName)
		case "ResourceSlice":
			slice := read[resourcev1.ResourceSlice](text)
			graph.AddResourceSlice(slice.Name, *slice.Spec.NodeName)
		default:
			policy = append(policy, text)
		}
	}
	roles, bindings, clusterRoles, clusterBindings := readPolicy(policy)
	for _, all := range bootstrappolicy.NamespaceRoles() {
		for _, role := range all {
			roles = append(roles, &role)
		}
	}
	for _, all := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range all {
			bindings = append(bindings, &binding)
		}
	}
	for _, role := range bootstrappolicy.ClusterRoles() {
		clusterRoles = append(clusterRoles, &role)
	}
	for _, binding := range bootstrappolicy.ClusterRoleBindings() {
		clusterBindings = append(clusterBindings, &binding)
	}
	aggregate(clusterRoles)
	// The caches of an apiserver have no order; the first binding that allows is the reason.
	slices.SortFunc(bindings, func(a, b *rbacv1.RoleBinding) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(clusterBindings, func(a, b *rbacv1.ClusterRoleBinding) int { return strings.Compare(a.Name, b.Name) })
	_, static := validation.NewTestRuleResolver(roles, bindings, clusterRoles, clusterBindings)
	return union.New(
		authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup),
		node.NewAuthorizer(graph, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules()),
		rbac.New(static, static, static, static),
	)
}

// aggregate does what a controller does in a cluster.
func aggregate(roles []*rbacv1.ClusterRole) {
	for changed := true; changed; {
		changed = false
		for _, role := range roles {
			if role.AggregationRule == nil {
				continue
			}
			var rules []rbacv1.PolicyRule
			for _, one := range role.AggregationRule.ClusterRoleSelectors {
				selector, err := metav1.LabelSelectorAsSelector(&one)
				check(err)
				for _, other := range roles {
					if other != role && selector.Matches(labels.Set(other.Labels)) {
						rules = append(rules, other.Rules...)
					}
				}
			}
			if fmt.Sprint(rules) != fmt.Sprint(role.Rules) {
				role.Rules, changed = rules, true
			}
		}
	}
}
