package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	celgo "github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"
	"google.golang.org/protobuf/types/known/structpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/mutation"
	"k8s.io/apiserver/pkg/cel/mutation/dynamic"
)

type admissionLine struct {
	Wanted     string            `json:"wanted"`
	Expression string            `json:"expression"`
	Error      string            `json:"error,omitempty"`
	Results    []admissionResult `json:"results,omitempty"`
}

type admissionResult struct {
	Verdict string `json:"verdict"`
	// Left is what is left of the budget.
	Left int64 `json:"left"`
}

type admissionInput struct {
	Operation string            `json:"operation"`
	Namespace *corev1.Namespace `json:"namespace"`
	Object    map[string]any    `json:"object"`
	OldObject map[string]any    `json:"oldObject"`
	Params    map[string]any    `json:"params"`
}

// accessor is an expression with the types that it may have.
type accessor struct {
	expression string
	wanted     []*celgo.Type
}

func (a accessor) GetExpression() string      { return a.expression }
func (a accessor) ReturnTypes() []*celgo.Type { return a.wanted }

var wantedTypes = map[string][]*celgo.Type{
	"bool":    {celgo.BoolType},
	"string":  {celgo.StringType},
	"strings": {celgo.StringType, celgo.NullType},
	"any":     {celgo.AnyType},
	"object":  {types.NewObjectType("Object")},
	"patch":   {celgo.ListType(types.NewObjectType("JSONPatch"))},
}

// onlyGet allows the verb get, and fails for the verb fail.
type onlyGet struct{}

func (onlyGet) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	switch a.GetVerb() {
	case "get":
		return authorizer.DecisionAllow, "get", nil
	case "fail":
		return authorizer.DecisionNoOpinion, "", errors.New("it failed")
	}
	return authorizer.DecisionNoOpinion, "no get", nil
}

// admissionExpressions compiles expressions as policies have them, and evaluates them for writes.
func admissionExpressions(dir string) []any {
	var inputs []admissionInput
	readJSON(dir+"/inputs.json", &inputs)
	variables := []cel.NamedExpressionAccessor{}
	for _, line := range readLines(dir + "/variables.txt") {
		name, expression, _ := strings.Cut(line, " := ")
		variables = append(variables, &validating.Variable{Name: name, Expression: expression})
	}
	lines := []any{}
	for _, text := range readLines(dir + "/expressions.txt") {
		wanted, expression, _ := strings.Cut(text, " ")
		lines = append(lines, admitted(wanted, expression, variables, inputs))
	}
	return lines
}

func admitted(wanted, expression string, variables []cel.NamedExpressionAccessor, inputs []admissionInput) admissionLine {
	line := admissionLine{Wanted: wanted, Expression: expression}
	compiler, err := cel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	check(err)
	options := cel.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	options.HasPatchTypes = wanted == "object" || wanted == "patch"
	one := accessor{expression, wantedTypes[wanted]}
	compiled := compiler.CompileCELExpression(one, options, environment.StoredExpressions)
	if compiled.Error != nil {
		line.Error = compiled.Error.Error()
		return line
	}
	for _, input := range inputs {
		verdict := ""
		evaluator := compiler.CompileMutatingEvaluator(one, options, environment.StoredExpressions)
		attributes := input.attributes()
		request := cel.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind(attributes.VersionedKind))
		bindings := cel.OptionalVariableBindings{Authorizer: onlyGet{}}
		if input.Params != nil {
			bindings.VersionedParams = &unstructured.Unstructured{Object: input.Params}
		}
		ctx := compiler.CreateContext(context.Background())
		result, left, err := evaluator.ForInput(ctx, attributes, request, bindings, cel.CreateNamespaceObject(input.Namespace), celconfig.RuntimeCELCostBudget)
		switch {
		case err != nil:
			verdict = err.Error()
		case result.Error != nil:
			verdict = result.Error.Error()
		default:
			verdict = shownResult(wanted, result)
		}
		line.Results = append(line.Results, admissionResult{verdict, left})
	}
	return line
}

func (one admissionInput) attributes() *admission.VersionedAttributes {
	kind := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	object := func(fields map[string]any) runtime.Object {
		if fields == nil {
			return nil
		}
		return &unstructured.Unstructured{Object: fields}
	}
	user := &user.DefaultInfo{Name: "me", Groups: []string{"g1", "g2"}, Extra: map[string][]string{"k": {"v"}}}
	attributes := admission.NewAttributesRecord(object(one.Object), object(one.OldObject), kind, "default", "a", resource, "", admission.Operation(one.Operation), nil, false, user)
	return &admission.VersionedAttributes{Attributes: attributes, VersionedKind: kind, VersionedObject: object(one.Object), VersionedOldObject: object(one.OldObject)}
}

func shownResult(wanted string, result cel.EvaluationResult) string {
	var made any
	switch wanted {
	case "object":
		value := result.EvalResult.(*dynamic.ObjectVal)
		if err := value.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return "type mismatch: " + err.Error()
		}
		made = value.Value()
	case "patch":
		operations := []any{}
		list := result.EvalResult.(traits.Lister)
		for it := list.Iterator(); it.HasNext() == types.True; {
			operation, err := shownOperation(it.Next().(*mutation.JSONPatchVal))
			if err != nil {
				return "type mismatch: " + err.Error()
			}
			operations = append(operations, operation)
		}
		made = operations
	case "any":
		return "something"
	default:
		if result.EvalResult.Type() == types.NullType {
			return "null"
		}
		return fmt.Sprint(result.EvalResult.Value())
	}
	text, err := json.Marshal(made)
	check(err)
	return string(text)
}

func shownOperation(one *mutation.JSONPatchVal) (map[string]any, error) {
	operation := map[string]any{"op": one.Op, "path": one.Path}
	if one.From != "" {
		operation["from"] = one.From
	}
	if one.Val == nil {
		return operation, nil
	}
	if object, ok := one.Val.(*dynamic.ObjectVal); ok {
		if err := object.CheckTypeNamesMatchFieldPathNames(); err != nil {
			return nil, err
		}
	}
	value, err := one.Val.ConvertToNative(reflect.TypeOf(&structpb.Value{}))
	check(err)
	operation["value"] = value
	return operation, nil
}
