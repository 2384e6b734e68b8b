use super::super::node::Kind;
use super::find;

/// A format, texts that have it, and texts that do not.
type Row = (
    &'static str,
    &'static [&'static str],
    &'static [&'static str],
);

const TABLE: &[Row] = &[
    (
        "bsonobjectid",
        &["507f1f77bcf86cd799439011"],
        &["", "507f1f77bcf86cd79943901", "507f1f77bcf86cd79943901g"],
    ),
    (
        "uri",
        &[
            "http://a.b/c?d=e#f",
            "/a/b",
            "mailto:a@b",
            "*",
            "http://[::1]:80/",
            "http://u:p@h/%20",
        ],
        &[
            "",
            "a/b",
            ":a",
            "http://a b/",
            "http://a:b/",
            "/%zz",
            "http://[::1/",
            "http://a%41/",
            "a\u{1}:b",
        ],
    ),
    (
        "email",
        &["a@b", "A B <a.b@c.d>", "\"a b\"@c", "a@[1.2.3.4]"],
        &["", "a", "@b", "a@", "a..b@c", "a b@c", "<a@b"],
    ),
    (
        "hostname",
        &["a", "a.bc", "1-2.example.com", "☺"],
        &["", "-a", "a.b-", "a_b", "a.1", "ab-c"],
    ),
    (
        "ipv4",
        &["1.2.3.4", "001.2.3.4", "::ffff:1.2.3.4", "::ffff:01.2.3.4"],
        &[
            "",
            "1.2.3",
            "1.2.3.256",
            "1.2.3.4.5",
            "::1",
            "1.2.3.9999999999999999999",
        ],
    ),
    (
        "ipv6",
        &["::1", "2001:db8::"],
        &["", "1.2.3.4", "::1%eth0", ":::"],
    ),
    (
        "cidr",
        &["10.0.0.0/8", "::/0", "10.0.0.1/032"],
        &[
            "",
            "10.0.0.0",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/-1",
            "10.0.0.0/",
        ],
    ),
    (
        "mac",
        &[
            "01:23:45:67:89:ab",
            "01-23-45-67-89-AB",
            "0123.4567.89ab",
            "0123.4567.89ab.cdef",
            "0123456789ab",
        ],
        &["", "01:23:45:67:89", "01:23:45:67:89-ab", "0123.4567"],
    ),
    (
        "uuid",
        &[
            "7b6e2a60-7a8b-4e44-9b29-5c7f5b0b8f7a",
            "7B6E2A607a8b4e449b295c7f5b0b8f7a",
        ],
        &[
            "",
            "7b6e2a60",
            "7b6e2a60-7a8b-4e44-9b29-5c7f5b0b8f7",
            "☺☺☺☺☺☺☺☺☺☺☺☺",
        ],
    ),
    (
        "uuid3",
        &["7b6e2a60-7a8b-3e44-0b29-5c7f5b0b8f7a"],
        &["7b6e2a60-7a8b-4e44-9b29-5c7f5b0b8f7a"],
    ),
    (
        "uuid4",
        &["7b6e2a60-7a8b-4e44-9b29-5c7f5b0b8f7a"],
        &["7b6e2a60-7a8b-4e44-cb29-5c7f5b0b8f7a"],
    ),
    (
        "uuid5",
        &["7b6e2a60-7a8b-5e44-Bb29-5c7f5b0b8f7a"],
        &["7b6e2a60-7a8b-5e44-cb29-5c7f5b0b8f7a"],
    ),
    (
        "isbn",
        &["0321751043", "978-0321751041"],
        &["", "0321751044"],
    ),
    (
        "isbn10",
        &["0321751043", "0-8044-2957-X"],
        &["", "978-0321751041", "08044295XX"],
    ),
    (
        "isbn13",
        &["978-0321751041"],
        &["", "978-0321751042", "0321751043"],
    ),
    (
        "creditcard",
        &["4111-1111-1111-1111", "378282246310005"],
        &["", "4111111111111112", "9111111111111111"],
    ),
    (
        "ssn",
        &["111-11-1111", "111 11 1111"],
        &["", "111111111", "111-111-111"],
    ),
    ("hexcolor", &["#FFFFFF", "fff"], &["", "#ff", "#ggg"]),
    (
        "rgbcolor",
        &["rgb(255,0,10)", "rgb( 1 , 2 , 3 )"],
        &["", "rgb(256,0,0)", "rgb(1,2)", "rgb(01,2,3)"],
    ),
    ("byte", &["YQ==", "YWJj"], &["", "YQ", "Y Q=="]),
    ("password", &["", "any"], &[]),
    (
        "date",
        &["2024-02-29"],
        &["", "2023-02-29", "2024-2-9", "2024-13-01", "+024-01-01"],
    ),
    (
        "duration",
        &["1h30m", "22 ns", "3 days", "-1.5s", "0"],
        &["", "a", "5 x", "99999999999999999999 days"],
    ),
    (
        "date-time",
        &["2014-12-15T19:30:20.000Z", "2014-12-15t19:30:20+01:00"],
        &[
            "",
            "2014-12-15",
            "2014-12-15T24:00:00Z",
            "2014-12-15T19:30:20",
            "2014-12-15T19:30:20.Z",
        ],
    ),
    ("k8s-short-name", &["a-1"], &["", "A", "-a", "a.b"]),
    ("k8s-long-name", &["a-1.b"], &["", "A", "a..b"]),
];

#[test]
fn formats_accept_what_kubernetes_accepts() {
    for (name, good, bad) in TABLE {
        let format = find(name, Some(Kind::String)).unwrap_or_else(|| panic!("{name}"));
        for text in *good {
            assert!(format.accepts(text), "{name} {text:?}");
        }
        for text in *bad {
            assert!(!format.accepts(text), "{name} {text:?}");
        }
    }
}

#[test]
fn other_formats_are_ignored() {
    let known = |name, kind| find(name, kind).is_some();
    assert!(known("date", None) && known("int32", Some(Kind::Integer)));
    assert!(known("double", Some(Kind::Number)) && known("ipv4", Some(Kind::IntOrString)));
    assert!(!known("int32", Some(Kind::String)) && !known("date", Some(Kind::Integer)));
    assert!(!known("binary", Some(Kind::String)) && !known("date", Some(Kind::Object)));
}
