//! The operations of subresources that are streams, such as `exec`.

use machinery::schema::Subresource;

use super::{Place, Shape};
use crate::http::openapi::capital;
use crate::http::openapi::operations::names::tag_of;
use crate::http::openapi::operations::parameters::{self, Parameter};
use crate::http::openapi::operations::{Operation, Path};

/// What plain answers and bodies may be written in.
const ANY: &[&str] = &["*/*"];

impl Shape<'_> {
    /// The paths of a subresource that is a stream, such as `exec`, or what it is asked with.
    pub(super) fn streams(&self, sub: &Subresource, path: String) -> Vec<Path> {
        let methods: &[&str] = if sub.verbs.contains(&"delete") {
            &["delete", "get", "head", "options", "patch", "post", "put"]
        } else {
            &["get", "post"]
        };
        let mut paths = Vec::new();
        let mut add = |path: String, rest: bool| {
            let operations = methods.iter();
            let operations = operations
                .map(|method| self.stream(sub, method, rest))
                .collect();
            paths.push(Path { path, operations });
        };
        if sub.name == "proxy" {
            add(format!("{path}/{{path}}"), true);
        }
        add(path, false);
        paths
    }

    fn stream(&self, sub: &Subresource, method: &'static str, rest: bool) -> Operation {
        let kind = self.kind;
        let place = Place {
            namespaced: kind.namespaced(),
            named: true,
            all: false,
            sub: Some(sub),
        };
        let mut parameters = self.in_path(&place);
        if rest {
            parameters.push(Parameter::in_path(
                "path",
                "path to the resource".to_owned(),
            ));
        }
        parameters.extend(parameters::of_options(sub.message().name));
        let with = if rest { "WithPath" } else { "" };
        let ends = [&capital(sub.name), with];
        Operation {
            method,
            description: format!(
                "connect {} requests to {} of {}",
                method.to_uppercase(),
                sub.name,
                kind.kind()
            ),
            id: self.id("connect", &capital(method), kind.namespaced(), &ends),
            tag: tag_of(kind),
            action: "connect",
            of: Some(self.of(Some(sub))),
            parameters,
            body: None,
            consumes: ANY,
            produces: ANY.to_vec(),
            codes: &[("200", "OK")],
            answer: None,
        }
    }
}
