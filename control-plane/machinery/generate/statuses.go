package main

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/storage"
)

// statuses gives the errors of the API as Go's constructors make them.
func statuses() []any {
	pods := schema.GroupResource{Resource: "pods"}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	name := field.NewPath("metadata", "name")
	list := field.ErrorList{field.Invalid(name, "A_b", "why"), field.Required(field.NewPath("spec"), "missing"), field.NotSupported(field.NewPath("type"), "x", []string{"b", "a"}),
		field.Duplicate(name, 5), field.Forbidden(name, "no"), field.TooLong(name, "", 3), field.NotFound(name, "z")}
	var lines []any
	add := func(of string, err *apierrors.StatusError) {
		status := err.Status()
		status.Kind, status.APIVersion = "Status", "v1"
		lines = append(lines, map[string]any{"of": of, "status": status})
	}
	add("not_found", apierrors.NewNotFound(deployments, "a"))
	add("already_exists", apierrors.NewAlreadyExists(pods, "a"))
	add("stale", apierrors.NewConflict(pods, "a", errors.New("the object has been modified; please apply your changes to the latest version and try again")))
	add("bad_request", apierrors.NewBadRequest("why"))
	add("unauthorized", apierrors.NewUnauthorized("Unauthorized"))
	add("forbidden", apierrors.NewForbidden(pods, "a", errors.New("why")))
	add("forbidden_all", apierrors.NewForbidden(deployments, "", errors.New("why")))
	add("invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "a", list))
	add("invalid_one", apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "a", list[:1]))
	add("too_many_requests", apierrors.NewTooManyRequests("why", 1))
	add("future_version", storage.NewTooLargeResourceVersionError(9, 5, 1).(*apierrors.StatusError))
	add("expired", apierrors.NewResourceExpired("why"))
	add("internal", apierrors.NewInternalError(errors.New("why")))
	add("unavailable", apierrors.NewServiceUnavailable("why"))
	return lines
}
