package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"sort"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/environment"
)

var (
	selfType = regexp.MustCompile(`selfType\d+`)
	comment  = regexp.MustCompile(`^//`)
)

type ruleResult struct {
	Verdict string `json:"verdict"`
	Cost    uint64 `json:"cost"`
}

type ruleLine struct {
	Rule    string       `json:"rule"`
	Error   string       `json:"error,omitempty"`
	CostMax uint64       `json:"costMax"`
	Results []ruleResult `json:"results,omitempty"`
}

// expressions compiles each rule of a text file against a schema, and evaluates it over objects.
func expressions(dir string) []any {
	var source any
	readJSON(dir+"/schema.json", &source)
	structural := structuralOf(source)
	var objects []map[string]any
	readJSON(dir+"/objects.json", &objects)
	lines := []any{}
	for _, rule := range readLines(dir + "/expressions.txt") {
		lines = append(lines, evaluated(structural, rule, objects))
	}
	return lines
}

func evaluated(structural *schema.Structural, rule string, objects []map[string]any) ruleLine {
	line := ruleLine{Rule: rule}
	one := *structural
	one.XValidations = apiextensionsv1.ValidationRules{{Rule: rule}}
	compiled, err := cel.Compile(&one, model.SchemaDeclType(&one, true), celconfig.PerCallLimit,
		environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()), cel.NewExpressionsEnvLoader())
	check(err)
	result := compiled[0]
	if result.Error != nil {
		line.Error = selfType.ReplaceAllString(result.Error.Detail, "selfType")
		return line
	}
	line.CostMax = result.MaxCost
	typed := model.WithTypeAndObjectMeta(&one)
	for _, object := range objects {
		variables := map[string]any{"self": cel.UnstructuredToVal(object, typed), "oldSelf": cel.UnstructuredToVal(objects[0], typed)}
		value, details, err := result.Program.ContextEval(context.Background(), variables)
		verdict := ""
		if err != nil {
			verdict = err.Error()
		} else {
			verdict = fmt.Sprint(value.Value())
		}
		cost := uint64(0)
		if details != nil && details.ActualCost() != nil {
			cost = *details.ActualCost()
		}
		line.Results = append(line.Results, ruleResult{verdict, cost})
	}
	return line
}

type definitionLine struct {
	Definition []string   `json:"definition"`
	Objects    [][]string `json:"objects,omitempty"`
}

type definitionCase struct {
	Schema  any `json:"schema"`
	Objects []struct {
		New map[string]any `json:"new"`
		Old map[string]any `json:"old"`
	} `json:"objects"`
}

// ruleDefinitions validates schemas with rules, and objects against them.
func ruleDefinitions(dir string) []any {
	lines := []any{}
	for _, text := range readLines(dir + "/definitions.jsonl") {
		var one definitionCase
		check(utiljson.Unmarshal([]byte(text), &one))
		lines = append(lines, validated(one))
	}
	return lines
}

func validated(one definitionCase) definitionLine {
	line := definitionLine{Definition: []string{}}
	errs := validation.ValidateCustomResourceDefinition(context.Background(), definitionOf(one.Schema))
	line.Definition = told(errs)
	if len(errs) > 0 {
		return line
	}
	structural := structuralOf(one.Schema)
	validator := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	for _, object := range one.Objects {
		var options []cel.Option
		var old any
		if object.Old != nil {
			old = object.Old
			options = append(options, cel.WithRatcheting(common.NewCorrelatedObject(object.New, object.Old, &model.Structural{Structural: structural})))
		}
		errs, _ := validator.Validate(context.Background(), nil, structural, object.New, old, celconfig.RuntimeCELCostBudget, options...)
		line.Objects = append(line.Objects, told(errs))
	}
	return line
}

// told are the errors as clients see them, in an order that no map decides.
func told(errs field.ErrorList) []string {
	all := []string{}
	for _, err := range errs {
		all = append(all, selfType.ReplaceAllString(err.Error(), "selfType"))
	}
	sort.Strings(all)
	return all
}

// definitionOf is a definition that is valid but for its schema.
func definitionOf(source any) *apiextensions.CustomResourceDefinition {
	keep := false
	one := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "example.com", Version: "v1", Scope: apiextensions.NamespaceScoped,
		Names:                 apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
		Versions:              []apiextensions.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true}},
		Validation:            &apiextensions.CustomResourceValidation{OpenAPIV3Schema: internalOf(source)},
		Conversion:            &apiextensions.CustomResourceConversion{Strategy: apiextensions.NoneConverter},
		PreserveUnknownFields: &keep,
	}}
	one.Name = "widgets.example.com"
	one.Status.StoredVersions = []string{"v1"}
	return one
}

func internalOf(source any) *apiextensions.JSONSchemaProps {
	text, err := json.Marshal(source)
	check(err)
	var external apiextensionsv1.JSONSchemaProps
	check(json.Unmarshal(text, &external))
	var internal apiextensions.JSONSchemaProps
	check(apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&external, &internal, nil))
	return &internal
}

func structuralOf(source any) *schema.Structural {
	structural, err := schema.NewStructural(internalOf(source))
	check(err)
	return structural
}

func readJSON(path string, into any) {
	text, err := os.ReadFile(path)
	check(err)
	check(utiljson.Unmarshal(text, into))
}

func readLines(path string) []string {
	file, err := os.Open(path)
	check(err)
	defer file.Close()
	lines := []string{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		if text := scanner.Text(); text != "" && !comment.MatchString(text) {
			lines = append(lines, text)
		}
	}
	return lines
}
