// Command decisions reads requests (`GET /path?query`, one a line) and prints for each what
// Kubernetes' RequestInfo makes of it, and whether its RBAC authorizer allows it to each of the
// users of a file of rules. With a second argument, `chain`, it reads whole requests instead and
// sends them through the filters of an apiserver.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"strings"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
)

type rules struct {
	Users []struct {
		Name   string
		UID    string
		Groups []string
		Extra  map[string][]string
	}
	Objects []json.RawMessage
}

func main() {
	// What cannot be parsed is part of what is asked here.
	klog.SetLogger(logr.Discard())
	text, err := os.ReadFile(os.Args[1])
	check(err)
	var given rules
	check(json.Unmarshal(text, &given))
	if len(os.Args) > 2 && os.Args[2] == "chain" {
		chain(given)
		return
	}
	policy := policyOf(given.Objects)
	factory := request.RequestInfoFactory{
		APIPrefixes:          sets.NewString("api", "apis"),
		GrouplessAPIPrefixes: sets.NewString("api"),
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		method, url, _ := strings.Cut(lines.Text(), " ")
		req, err := http.NewRequest(method, url, nil)
		check(err)
		info, err := factory.NewRequestInfo(req)
		check(err)
		if info.IsResourceRequest {
			fmt.Printf("%s %q %q %q %q %q ", info.Verb, info.APIGroup, info.Resource, info.Subresource, info.Namespace, info.Name)
		} else {
			fmt.Printf("%s path %q ", info.Verb, info.Path)
		}
		for _, one := range given.Users {
			asked := authorizer.AttributesRecord{
				User:            &user.DefaultInfo{Name: one.Name, Groups: one.Groups},
				Verb:            info.Verb,
				Namespace:       info.Namespace,
				APIGroup:        info.APIGroup,
				APIVersion:      info.APIVersion,
				Resource:        info.Resource,
				Subresource:     info.Subresource,
				Name:            info.Name,
				ResourceRequest: info.IsResourceRequest,
				Path:            info.Path,
			}
			decision, _, err := policy.Authorize(context.Background(), asked)
			check(err)
			if decision == authorizer.DecisionAllow {
				fmt.Print("1")
			} else {
				fmt.Print("0")
			}
		}
		fmt.Println()
	}
	check(lines.Err())
}

func policyOf(objects []json.RawMessage) *rbac.RBACAuthorizer {
	_, static := validation.NewTestRuleResolver(readPolicy(objects))
	return rbac.New(static, static, static, static)
}

// readPolicy reads the objects of a policy.
func readPolicy(objects []json.RawMessage) (
	roles []*rbacv1.Role,
	bindings []*rbacv1.RoleBinding,
	clusterRoles []*rbacv1.ClusterRole,
	clusterBindings []*rbacv1.ClusterRoleBinding,
) {
	for _, text := range objects {
		var named struct{ Kind string }
		check(json.Unmarshal(text, &named))
		switch named.Kind {
		case "Role":
			roles = append(roles, read[rbacv1.Role](text))
		case "RoleBinding":
			bindings = append(bindings, read[rbacv1.RoleBinding](text))
		case "ClusterRole":
			clusterRoles = append(clusterRoles, read[rbacv1.ClusterRole](text))
		case "ClusterRoleBinding":
			clusterBindings = append(clusterBindings, read[rbacv1.ClusterRoleBinding](text))
		default:
			log.Fatalf("%s is no part of a policy", named.Kind)
		}
	}
	return roles, bindings, clusterRoles, clusterBindings
}

func read[T any](text []byte) *T {
	object := new(T)
	check(json.Unmarshal(text, object))
	return object
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
