//! Converts JSON to a message's encoding, by the rules of Go's `protojson`; unknown fields are
//! discarded. Error texts are Go's, because clients see them.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use etcd_api::descriptor::{Enum, Field, Kind, Message};
use prost::encoding::{WireType, encode_key, encode_varint};

use super::number;
use super::scan::{UNEXPECTED_END, is_space};
use super::text::{TextError, quote, unquote};

/// Deepest nesting of messages: the limit of the services' decoder.
const DEPTH_MAX: usize = 100;

const TOO_DEEP: &str = "proto: exceeded max recursion depth";

/// Encodes the message that `json` describes. `json` must be one value that the scanner accepted.
pub(crate) fn decode(json: &[u8], message: &Message) -> Result<Vec<u8>, String> {
    let start = json
        .iter()
        .position(|byte| !is_space(*byte))
        .unwrap_or(json.len());
    let json = &json[start..];
    let mut reader = Reader { json, place: 0 };
    reader.message(message, DEPTH_MAX)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kinds {
    Null,
    True,
    False,
    Number,
    Text,
    Object,
    ObjectEnd,
    Array,
    ArrayEnd,
    End,
}

/// A token and its position. Strings are not yet unquoted.
#[derive(Clone, Copy, Debug)]
struct Token {
    kind: Kinds,
    start: usize,
    end: usize,
}

struct Reader<'a> {
    json: &'a [u8],
    place: usize,
}

impl<'a> Reader<'a> {
    /// The next token. Skips commas and colons; the scanner has checked their places.
    fn next(&mut self) -> Token {
        let json = self.json;
        while json
            .get(self.place)
            .is_some_and(|byte| is_space(*byte) || matches!(byte, b',' | b':'))
        {
            self.place += 1;
        }
        let start = self.place;
        let word = |word: &str| start + word.len();
        let (kind, end) = match json.get(start) {
            None => (Kinds::End, start),
            Some(b'n') => (Kinds::Null, word("null")),
            Some(b't') => (Kinds::True, word("true")),
            Some(b'f') => (Kinds::False, word("false")),
            Some(b'{') => (Kinds::Object, start + 1),
            Some(b'}') => (Kinds::ObjectEnd, start + 1),
            Some(b'[') => (Kinds::Array, start + 1),
            Some(b']') => (Kinds::ArrayEnd, start + 1),
            Some(b'"') => (Kinds::Text, text_end(json, start)),
            Some(_) => {
                let length = json[start..]
                    .iter()
                    .take_while(|byte| number::is_part(**byte));
                (Kinds::Number, start + length.count())
            }
        };
        // Skips the token, whatever it is, but not past the end.
        self.place = end.max(start + 1).min(json.len());
        Token {
            kind,
            start,
            end: self.place,
        }
    }

    fn peek(&mut self) -> Token {
        let place = self.place;
        let token = self.next();
        self.place = place;
        token
    }

    fn message(&mut self, message: &Message, depth: usize) -> Result<Vec<u8>, String> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(TOO_DEEP.to_owned());
        };
        let open = self.next();
        if open.kind == Kinds::Text {
            self.unquote(open)?;
        }
        if open.kind != Kinds::Object {
            return Err(self.unexpected(open));
        }
        let mut out = Vec::new();
        let (mut seen, mut oneofs) = (0_u64, Vec::new());
        loop {
            let name = self.next();
            if name.kind == Kinds::ObjectEnd {
                return Ok(out);
            }
            if name.kind != Kinds::Text {
                return Err(self.unexpected(name));
            }
            let Some((index, field)) = message.named(&self.unquote(name)?) else {
                self.skip()?;
                continue;
            };
            if seen & (1 << index) != 0 {
                return Err(self.error(name, &format!("duplicate field {}", self.raw(name))));
            }
            seen |= 1 << index;
            if self.peek().kind == Kinds::Null {
                self.next();
                continue;
            }
            if let Some(oneof) = field.oneof {
                if oneofs.contains(&oneof) {
                    let raw = self.raw(name);
                    let text = format!("error parsing {raw}, oneof {oneof} is already set");
                    return Err(self.error(name, &text));
                }
                oneofs.push(oneof);
            }
            if field.repeated {
                self.list(field, depth, &mut out)?
            } else {
                self.singular(field, depth, &mut out)?
            }
        }
    }

    fn singular(&mut self, field: &Field, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
        if let Kind::Message(message) = field.kind {
            let inner = self.message(message, depth)?;
            put_bytes(field.number, &inner, out);
            return Ok(());
        }
        let Some(scalar) = self.scalar(field)? else {
            return Ok(());
        };
        // Only fields of a oneof distinguish zero from unset.
        if field.oneof.is_some() || !scalar.is_zero() {
            scalar.put(field.number, out);
        }
        Ok(())
    }

    fn list(&mut self, field: &Field, depth: usize, out: &mut Vec<u8>) -> Result<(), String> {
        let open = self.next();
        if open.kind == Kinds::Text {
            self.unquote(open)?;
        }
        if open.kind != Kinds::Array {
            return Err(self.unexpected(open));
        }
        let mut packed = Vec::new();
        while self.peek().kind != Kinds::ArrayEnd {
            if let Kind::Message(message) = field.kind {
                let inner = self.message(message, depth)?;
                put_bytes(field.number, &inner, out);
                continue;
            }
            match self.scalar(field)? {
                Some(Scalar::Varint(value)) => encode_varint(value, &mut packed),
                Some(scalar) => scalar.put(field.number, out),
                None => {}
            }
        }
        self.next();
        if !packed.is_empty() {
            put_bytes(field.number, &packed, out);
        }
        Ok(())
    }

    /// `None`: a name that the enum does not have. In that case the field is left unset.
    fn scalar(&mut self, field: &Field) -> Result<Option<Scalar>, String> {
        let token = self.next();
        let text = match token.kind {
            Kinds::Text => Some(self.unquote(token)?),
            _ => None,
        };
        let digits = || match (&text, token.kind) {
            (Some(text), _) => number::in_text(text),
            (None, Kinds::Number) => number::integer(&self.json[token.start..token.end]),
            _ => None,
        };
        let (kind, scalar) = match (field.kind, token.kind) {
            (Kind::Bool, Kinds::True) => ("bool", Some(Scalar::Varint(1))),
            (Kind::Bool, Kinds::False) => ("bool", Some(Scalar::Varint(0))),
            (Kind::Bool, _) => ("bool", None),
            (Kind::Int32, _) => ("int32", digits().and_then(|digits| signed32(&digits))),
            (Kind::Int64, _) => (
                "int64",
                digits().and_then(|digits| Some(Scalar::signed(digits.parse().ok()?))),
            ),
            (Kind::Uint32, _) => (
                "uint32",
                digits()
                    .and_then(|digits| Some(Scalar::Varint(digits.parse::<u32>().ok()?.into()))),
            ),
            (Kind::Uint64, _) => (
                "uint64",
                digits().and_then(|digits| Some(Scalar::Varint(digits.parse().ok()?))),
            ),
            (Kind::String, _) => ("string", text.map(|text| Scalar::Bytes(text.into_bytes()))),
            (Kind::Bytes, _) => (
                "bytes",
                text.and_then(|text| bytes(&text)).map(Scalar::Bytes),
            ),
            (Kind::Enum(described), Kinds::Text) => {
                return Ok(text.and_then(|text| named(described, &text)));
            }
            (Kind::Enum(_), Kinds::Number) => {
                ("enum", digits().and_then(|digits| signed32(&digits)))
            }
            (Kind::Enum(_), _) => ("enum", None),
            (Kind::Message(_), _) => ("message", None),
        };
        if scalar.is_none() {
            let (name, raw) = (field.json_name, self.raw(token));
            let text = format!("invalid value for {kind} field {name}: {raw}");
            return Err(self.error(token, &text));
        }
        Ok(scalar)
    }

    /// Skips the value of an unknown field. Its strings must still be valid.
    fn skip(&mut self) -> Result<(), String> {
        let mut open = 0_usize;
        loop {
            let token = self.next();
            match token.kind {
                Kinds::Object | Kinds::Array => open += 1,
                Kinds::ObjectEnd | Kinds::ArrayEnd => open = open.saturating_sub(1),
                Kinds::Text => drop(self.unquote(token)?),
                Kinds::End => return Err(format!("proto: {UNEXPECTED_END}")),
                _ => {}
            }
            if open == 0 {
                return Ok(());
            }
        }
    }

    fn unquote(&self, token: Token) -> Result<String, String> {
        let rest = &self.json[token.start..];
        unquote(rest).map_err(|error| match error {
            TextError::End => format!("proto: {UNEXPECTED_END}"),
            TextError::Utf8 => self.syntax_error(token, "invalid UTF-8 in string"),
            TextError::Escape(escape) => {
                let text = format!("invalid escape code {} in string", quote(escape));
                self.syntax_error(token, &text)
            }
        })
    }

    fn raw(&self, token: Token) -> String {
        String::from_utf8_lossy(&self.json[token.start..token.end]).into_owned()
    }

    fn unexpected(&self, token: Token) -> String {
        self.syntax_error(token, &format!("unexpected token {}", self.raw(token)))
    }

    fn syntax_error(&self, token: Token, text: &str) -> String {
        let (line, column) = self.position(token.start);
        format!("proto: syntax error (line {line}:{column}): {text}")
    }

    fn error(&self, token: Token, text: &str) -> String {
        let (line, column) = self.position(token.start);
        format!("proto: (line {line}:{column}): {text}")
    }

    /// Line and column of a place, both counted from 1.
    fn position(&self, place: usize) -> (usize, usize) {
        let before = &self.json[..place];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n');
        let before = &before[start.map_or(0, |newline| newline + 1)..];
        (line, String::from_utf8_lossy(before).chars().count() + 1)
    }
}

enum Scalar {
    Varint(u64),
    Bytes(Vec<u8>),
}

impl Scalar {
    fn signed(value: i64) -> Scalar {
        Scalar::Varint(value as u64)
    }

    fn is_zero(&self) -> bool {
        match self {
            Scalar::Varint(value) => *value == 0,
            Scalar::Bytes(bytes) => bytes.is_empty(),
        }
    }

    fn put(&self, number: u32, out: &mut Vec<u8>) {
        match self {
            Scalar::Varint(value) => {
                encode_key(number, WireType::Varint, out);
                encode_varint(*value, out);
            }
            Scalar::Bytes(bytes) => put_bytes(number, bytes, out),
        }
    }
}

fn put_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn signed32(digits: &str) -> Option<Scalar> {
    Some(Scalar::signed(digits.parse::<i32>().ok()?.into()))
}

fn named(described: &Enum, name: &str) -> Option<Scalar> {
    described
        .number(name)
        .map(|number| Scalar::signed(number.into()))
}

/// The end of the string that begins at `start`.
fn text_end(json: &[u8], start: usize) -> usize {
    let mut place = start + 1;
    loop {
        match json.get(place) {
            None => return json.len(),
            Some(b'"') => return place + 1,
            Some(b'\\') => place += 2,
            Some(_) => place += 1,
        }
    }
}

/// Base64 in the standard or URL alphabet, with or without padding; line breaks are ignored.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let alphabet = if text.contains(['-', '_']) {
        &URL_SAFE
    } else {
        &STANDARD
    };
    let padding = match text.len() % 4 {
        0 => DecodePaddingMode::RequireCanonical,
        _ => DecodePaddingMode::RequireNone,
    };
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(padding);
    let engine = GeneralPurpose::new(alphabet, config);
    if text.contains(['\r', '\n']) {
        engine.decode(text.replace(['\r', '\n'], "")).ok()
    } else {
        engine.decode(text).ok()
    }
}
