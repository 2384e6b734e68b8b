use super::*;

#[test]
fn the_catalogue_is_served() {
    let pods = resource("", "v1", "pods").unwrap();
    assert_eq!((pods.kind, pods.singular), ("Pod", "pod"));
    assert_eq!(pods.short_names, ["po"]);
    assert_eq!(pods.categories, ["all"]);
    assert!(pods.namespaced() && pods.has_verb("watch"));
    assert!(pods.subresource("eviction").is_some());
    let deployment = kind("apps", "v1", "Deployment").unwrap();
    assert_eq!(deployment.api_version(), "apps/v1");
    let scale = deployment.subresource("scale").unwrap();
    assert_eq!((scale.group, scale.kind), ("autoscaling", "Scale"));
    assert_eq!(kinds().len(), 68);
}

#[test]
fn embedded_fields_are_found_by_their_json_names() {
    let volume = message("core/v1.Volume").unwrap();
    let empty = volume.field("emptyDir").unwrap();
    assert_eq!(empty.number, 2);
    assert!(volume.field("volumeSource").is_none());
    let containers = message("core/v1.PodSpec").unwrap();
    let containers = containers.field("containers").unwrap();
    assert_eq!(containers.patch.merge_key, "name");
    assert_eq!(containers.list, ListType::Map);
}

#[test]
fn options_are_known_under_every_group() {
    for group in ["", "apps", "meta.k8s.io"] {
        let options = body(group, "v1", "DeleteOptions").unwrap();
        assert!(options.field("propagationPolicy").is_some(), "{group}");
    }
    assert!(body("apps", "v1", "DeploymentList").is_some());
    assert!(body("apps", "v1", "Nothing").is_none());
}
