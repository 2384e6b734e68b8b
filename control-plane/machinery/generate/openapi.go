package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/kube-openapi/pkg/handler"
)

// document is an OpenAPI v2 document as far as it is compared.
type document struct {
	Definitions map[string]any            `json:"definitions"`
	Paths       map[string]map[string]any `json:"paths"`
}

// operation is what names an operation in a document.
type operation struct {
	ID     string   `json:"operationId"`
	Tags   []string `json:"tags"`
	Action string   `json:"x-kubernetes-action"`
}

// swagger is Kubernetes' OpenAPI v2 document without its texts, then what its builder makes of custom
// resources, then small documents in protobuf.
func swagger() []any {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes").Output()
	check(err)
	path := filepath.Join(strings.TrimSpace(string(dir)), "api", "openapi-spec", "swagger.json")
	text, err := os.ReadFile(path)
	check(err)
	var whole document
	check(json.Unmarshal(text, &whole))
	var lines []any
	for _, name := range slices.Sorted(maps.Keys(whole.Definitions)) {
		lines = append(lines, map[string]any{"name": name, "schema": withoutTexts(whole.Definitions[name])})
	}
	for _, path := range slices.Sorted(maps.Keys(whole.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(whole.Paths[path])) {
			if method == "parameters" {
				continue
			}
			text, err := json.Marshal(whole.Paths[path][method])
			check(err)
			var one operation
			check(json.Unmarshal(text, &one))
			lines = append(lines, map[string]any{"path": path, "method": method, "operation": one})
		}
	}
	for _, schema := range customSchemas {
		lines = append(lines, customDocument(schema))
	}
	for _, text := range documents {
		// Ours has its keys in order.
		var whole any
		check(json.Unmarshal([]byte(text), &whole))
		ordered, err := json.Marshal(whole)
		check(err)
		encoded, err := handler.ToProtoBinary(ordered)
		check(err)
		lines = append(lines, map[string]any{"document": json.RawMessage(text), "protobuf": encoded})
	}
	return lines
}

// customSchemas have what OpenAPI v2 cannot say, or kubectl cannot read.
var customSchemas = []string{
	`{"type":"object"}`,
	`{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"spec":{"type":"object"}}}`,
	`{"type":"object","description":"d","required":["spec"],"properties":{"spec":{"type":"object","title":"t",
		"required":["a","n","l"],"minProperties":1,"maxProperties":9,"properties":{
		"a":{"type":"string","pattern":"^a$","minLength":1,"maxLength":5,"enum":["a","b"],"default":"a"},
		"d":{"type":"string","format":"date"},
		"n":{"type":"string","nullable":true},
		"l":{"type":"array","minItems":1,"items":{"type":"string"},"x-kubernetes-list-type":"set"},
		"m":{"type":"array","items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"}}},
			"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"]},
		"i":{"type":"integer","format":"int32","minimum":1,"maximum":5,"multipleOf":2,"exclusiveMaximum":true},
		"e":{"x-kubernetes-int-or-string":true},
		"f":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]},
		"v":{"type":"object","x-kubernetes-validations":[{"rule":"true","message":"m"}],"x-kubernetes-map-type":"atomic"}}}}}`,
	`{"type":"object","properties":{"spec":{"type":"object","properties":{
		"open":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"a":{"type":"string"}}},
		"any":{"x-kubernetes-preserve-unknown-fields":true},
		"opens":{"type":"array","x-kubernetes-preserve-unknown-fields":true,"items":{"type":"string"}},
		"null":{"type":"object","nullable":true,"required":["a"],"properties":{"a":{"type":"string","nullable":true}}},
		"nulls":{"type":"array","nullable":true,"items":{"type":"string"}},
		"map":{"type":"object","additionalProperties":{"type":"string"}},
		"maps":{"type":"object","required":["a"],"additionalProperties":{"type":"string","nullable":true}},
		"free":{"type":"object","additionalProperties":true},
		"either":{"type":"object","oneOf":[{"required":["a"]},{"required":["b"]}],"not":{"required":["c"]},
			"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}}},
		"whole":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}},
		"open-whole":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true}
		}}}}`,
}

// customDocument is the document of a custom resource with this schema.
func customDocument(schema string) any {
	var props apiextensions.JSONSchemaProps
	check(json.Unmarshal([]byte(schema), &props))
	definition := &apiextensions.CustomResourceDefinition{Spec: apiextensions.CustomResourceDefinitionSpec{
		Group: "shop.example.com",
		Scope: apiextensions.NamespaceScoped,
		Names: apiextensions.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ListKind: "WidgetList"},
		Versions: []apiextensions.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true,
			Schema: &apiextensions.CustomResourceValidation{OpenAPIV3Schema: &props},
		}},
	}}
	built, err := builder.BuildOpenAPIV2(definition, "v1", builder.Options{V2: true})
	check(err)
	text, err := json.Marshal(built)
	check(err)
	var whole document
	check(json.Unmarshal(text, &whole))
	definitions := map[string]any{}
	for name, one := range whole.Definitions {
		if strings.HasPrefix(name, "com.example") {
			definitions[name] = withoutTexts(one)
		}
	}
	return map[string]any{"custom": json.RawMessage(schema), "definitions": definitions}
}

// documents have every part that a document of ours has.
var documents = []string{
	`{"swagger":"2.0","info":{"title":"Kubernetes","version":"v1"},"paths":{}}`,
	`{"swagger":"2.0","info":{"title":"t","version":"v"},"paths":{"/a/{name}":{
		"delete":{"operationId":"d","tags":["x","y"],"schemes":["https"],"consumes":["*/*"],"produces":["application/json"],
			"parameters":[{"name":"body","in":"body","schema":{"$ref":"#/definitions/a"}},
				{"name":"dryRun","in":"query","type":"string","uniqueItems":true}],
			"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/a"}},"401":{"description":"Unauthorized"}},
			"x-kubernetes-action":"delete","x-kubernetes-group-version-kind":{"group":"","version":"v1","kind":"A"}},
		"get":{"responses":{"200":{"description":"OK"}}},
		"put":{"responses":{"200":{"description":"OK"}},
			"parameters":[{"name":"body","in":"body","required":true,"schema":{"type":"object"}}]},
		"post":{"responses":{"200":{"description":"OK"}}},
		"patch":{"responses":{"200":{"description":"OK"}}},
		"parameters":[{"name":"name","in":"path","required":true,"type":"string","uniqueItems":true},
			{"name":"pretty","in":"query","type":"boolean"}]}},
	"definitions":{
		"a":{"type":"object","required":["b","c"],"description":"d","title":"t","properties":{
			"b":{"type":"string","format":"date-time","minLength":1,"maxLength":2,"pattern":"^a$","enum":["a","b"],"default":"a"},
			"c":{"type":"integer","minimum":1,"maximum":2.5,"multipleOf":2,"exclusiveMinimum":true,"exclusiveMaximum":true},
			"d":{"type":"array","items":{"$ref":"#/definitions/a"},"minItems":1,"maxItems":300,"uniqueItems":true,
				"x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k","l"]},
			"e":{"type":"object","additionalProperties":{"type":"string"},"minProperties":1,"maxProperties":2},
			"f":{"type":"object","additionalProperties":true},
			"g":{"type":"object","additionalProperties":false,"x-kubernetes-preserve-unknown-fields":true},
			"h":{"minimum":0,"maxLength":0,"default":{"a":true,"c":"text"},"enum":[1,null]}},
			"x-kubernetes-group-version-kind":[{"group":"a.b","version":"v1","kind":"A"}]},
		"b":{}}}`,
}

// withoutTexts is a schema without texts.
func withoutTexts(schema any) any {
	switch schema := schema.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range schema {
			if _, is := value.(string); !is || key != "description" {
				out[key] = withoutTexts(value)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, value := range schema {
			out = append(out, withoutTexts(value))
		}
		return out
	default:
		return schema
	}
}
