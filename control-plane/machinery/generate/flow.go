package main

import "k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"

// flowControl returns the flow schemas and priority levels that every apiserver makes.
func flowControl() []any {
	var all []any
	for _, level := range append(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations...) {
		all = append(all, level)
	}
	for _, schema := range append(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas...) {
		all = append(all, schema)
	}
	return all
}
