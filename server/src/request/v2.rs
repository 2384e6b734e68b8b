//! Requests in the form of etcd's v2 API. etcd 3.5 still writes two of its own changes to the log in
//! this form: the attributes of a member at each start, and the cluster version.

use etcd_api::membershippb;
use serde::Deserialize;

use super::Request;
use super::encoded::{Field, next_field};

/// What tells such a request from others, which have no text in this place.
const METHODS: [&[u8]; 5] = [b"PUT", b"POST", b"DELETE", b"QGET", b"SYNC"];
const ID_FIELD: u32 = 1;
/// In a request of the v2 API its method. In `InternalRaftRequest`, where etcd before 3.6 has a field
/// for one, the whole request.
const METHOD_FIELD: u32 = 2;
const PATH_FIELD: u32 = 3;
const VALUE_FIELD: u32 = 4;

/// `None`: the payload is not in this form. What concerns keys of the v2 API changes nothing here.
pub(super) fn decode(data: &[u8]) -> Option<Result<Request, String>> {
    let found = method_field(data)?;
    let request = if METHODS.contains(&found) {
        data
    } else {
        method_field(found).filter(|method| METHODS.contains(method))?;
        found
    };
    Some(read(request))
}

/// Only the ID, if anything, comes before it.
fn method_field(mut data: &[u8]) -> Option<&[u8]> {
    loop {
        match next_field(&mut data)? {
            (ID_FIELD, _) => {}
            (METHOD_FIELD, Field::Bytes(found)) => return Some(found),
            _ => return None,
        }
    }
}

fn read(mut data: &[u8]) -> Result<Request, String> {
    let (mut method, mut path, mut value) = (&b""[..], &b""[..], &b""[..]);
    while !data.is_empty() {
        let field = next_field(&mut data).ok_or("a malformed request of the v2 API")?;
        match field {
            (METHOD_FIELD, Field::Bytes(found)) => method = found,
            (PATH_FIELD, Field::Bytes(found)) => path = found,
            (VALUE_FIELD, Field::Bytes(found)) => value = found,
            _ => {}
        }
    }
    let path = String::from_utf8_lossy(path);
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    match (method, &parts[..]) {
        (b"PUT", ["0", "members", id, "attributes"]) => attributes(id, value),
        (b"PUT", ["0", "version"]) => {
            let ver = String::from_utf8_lossy(value).into_owned();
            let set = membershippb::ClusterVersionSetRequest { ver };
            Ok(Request::ClusterVersionSet(set))
        }
        _ => Ok(Request::Read),
    }
}

fn attributes(id: &str, value: &[u8]) -> Result<Request, String> {
    #[derive(Deserialize)]
    struct Attributes {
        #[serde(default)]
        name: String,
        /// Go encodes a nil list as null.
        #[serde(rename = "clientURLs")]
        client_urls: Option<Vec<String>>,
    }
    let member_id = u64::from_str_radix(id, 16);
    let member_id = member_id.map_err(|error| format!("the member {id:?}: {error}"))?;
    let attributes: Attributes = serde_json::from_slice(value)
        .map_err(|error| format!("the attributes of member {id}: {error}"))?;
    let set = membershippb::ClusterMemberAttrSetRequest {
        member_id,
        member_attributes: Some(membershippb::Attributes {
            name: attributes.name,
            client_urls: attributes.client_urls.unwrap_or_default(),
        }),
    };
    Ok(Request::ClusterMemberAttrSet(set))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;
    use prost::encoding;

    use super::*;

    fn request(method: &str, path: &str, value: &str) -> Vec<u8> {
        let mut data = BytesMut::new();
        encoding::uint64::encode(ID_FIELD, &7, &mut data);
        for (field, text) in [
            (METHOD_FIELD, method),
            (PATH_FIELD, path),
            (VALUE_FIELD, value),
        ] {
            encoding::string::encode(field, &text.to_owned(), &mut data);
        }
        // etcd 3.5 writes all fields, also those without a value.
        encoding::bool::encode(5, &false, &mut data);
        encoding::string::encode(6, &String::new(), &mut data);
        encoding::uint64::encode(7, &0, &mut data);
        data.to_vec()
    }

    #[test]
    fn what_etcd_35_says_of_a_member_and_of_the_version_is_the_request_of_later_versions() {
        let data = request(
            "PUT",
            "/0/members/8e9e05c52164694d/attributes",
            r#"{"name":"e0","clientURLs":["http://a:2379"]}"#,
        );
        let set = membershippb::ClusterMemberAttrSetRequest {
            member_id: 0x8e9e_05c5_2164_694d,
            member_attributes: Some(membershippb::Attributes {
                name: "e0".to_owned(),
                client_urls: vec!["http://a:2379".to_owned()],
            }),
        };
        assert_eq!(
            Request::decode(&data),
            Ok(Request::ClusterMemberAttrSet(set))
        );
        let version = Request::ClusterVersionSet(membershippb::ClusterVersionSetRequest {
            ver: "3.5.0".to_owned(),
        });
        let data = request("PUT", "/0/version", "3.5.0");
        assert_eq!(Request::decode(&data), Ok(version.clone()));
        // As a field of `InternalRaftRequest`.
        let mut within = BytesMut::new();
        encoding::bytes::encode(METHOD_FIELD, &data, &mut within);
        assert_eq!(Request::decode(&within), Ok(version));
    }

    #[test]
    fn keys_of_the_v2_api_change_nothing_and_what_is_malformed_is_an_error() {
        for (method, path) in [("PUT", "/1/a"), ("DELETE", "/1/a"), ("SYNC", "")] {
            let data = request(method, path, "value");
            assert_eq!(Request::decode(&data), Ok(Request::Read));
        }
        for (path, value) in [
            ("/0/members/xyz/attributes", "{}"),
            ("/0/members/1/attributes", "no JSON"),
        ] {
            let data = request("PUT", path, value);
            Request::decode(&data).unwrap_err();
        }
        let whole = request("PUT", "/0/version", "3.5.0");
        Request::decode(&whole[..whole.len() - 1]).unwrap_err();
    }
}
