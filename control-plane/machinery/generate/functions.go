package main

import (
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/google/cel-go/common/types"
	"k8s.io/apiserver/pkg/cel/environment"
)

// writeFunctions writes the functions of Kubernetes' CEL environment, an overload a line:
// its name, its function, "member" or "global", the types of its arguments and of its result.
func writeFunctions(out io.Writer) {
	env := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).NewExpressionsEnv()
	functions := env.Functions()
	names := make([]string, 0, len(functions))
	for name := range functions {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		for _, overload := range functions[name].OverloadDecls() {
			style := "global"
			if overload.IsMemberFunction() {
				style = "member"
			}
			arguments := []string{}
			for _, argument := range overload.ArgTypes() {
				arguments = append(arguments, typeText(argument))
			}
			fmt.Fprintf(out, "%s %s %s (%s) %s\n", overload.ID(), name, style,
				strings.Join(arguments, ","), typeText(overload.ResultType()))
		}
	}
}

// typeText writes a type without blanks; type parameters begin with $.
func typeText(one *types.Type) string {
	name := one.TypeName()
	switch one.Kind() {
	case types.TypeParamKind:
		return "$" + name
	case types.NullTypeKind:
		name = "null"
	}
	if len(one.Parameters()) == 0 {
		return name
	}
	parameters := []string{}
	for _, parameter := range one.Parameters() {
		parameters = append(parameters, typeText(parameter))
	}
	return name + "(" + strings.Join(parameters, ",") + ")"
}
