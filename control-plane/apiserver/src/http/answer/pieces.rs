//! Long lists as they are sent: each piece is made of cached bytes when the connection asks for it.
//! So no list is in memory as a whole, and a piece is encrypted while it is in the processor's
//! cache. The length is known before the first piece.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use machinery::protobuf::splice;

/// Upper bound of a piece in bytes, unless one item alone is larger. The connection would cut a
/// larger piece in two.
const PIECE_BYTES: usize = 64 << 10;

/// What is written before and after an item.
pub(crate) enum Around {
    /// Text; items are separated by commas.
    Json { before: String, after: &'static str },
    /// A field of the list.
    Protobuf,
}

/// What has not been sent of a list.
pub(crate) struct Pieces {
    /// Made already: at first what comes before the items.
    made: Vec<u8>,
    items: std::vec::IntoIter<Bytes>,
    around: Around,
    is_first: bool,
    end: &'static [u8],
    left: u64,
}

impl Pieces {
    /// A list between its first and its last bytes.
    pub(crate) fn of(
        begin: Vec<u8>,
        items: Vec<Bytes>,
        around: Around,
        end: &'static [u8],
    ) -> Pieces {
        let commas = match around {
            Around::Json { .. } => items.len().saturating_sub(1),
            Around::Protobuf => 0,
        };
        let of_items: usize = items.iter().map(|item| around.length(item)).sum();
        Pieces {
            left: (begin.len() + commas + of_items + end.len()) as u64,
            made: begin,
            items: items.into_iter(),
            around,
            is_first: true,
            end,
        }
    }

    /// What is made already, and its last bytes.
    pub(crate) fn whole(made: Vec<u8>, end: &'static [u8]) -> Pieces {
        Pieces::of(made, Vec::new(), Around::Protobuf, end)
    }

    /// The next piece, which is empty at the end.
    fn next(&mut self) -> Bytes {
        let mut piece = std::mem::take(&mut self.made);
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        piece.reserve(left.min(PIECE_BYTES).saturating_sub(piece.len()));
        while let Some(item) = self.items.as_slice().first() {
            let length = self.around.length(item) + 1;
            if !piece.is_empty() && piece.len() + length > PIECE_BYTES {
                break;
            }
            let is_first = std::mem::replace(&mut self.is_first, false);
            self.around.write(&mut piece, item, is_first);
            self.items.next();
        }
        if self.items.len() == 0 {
            piece.extend_from_slice(std::mem::take(&mut self.end));
        }
        self.left -= piece.len() as u64;
        piece.into()
    }
}

impl Around {
    /// The bytes of an item with what is around it, but for the comma.
    fn length(&self, item: &Bytes) -> usize {
        match self {
            Around::Json { before, after } => before.len() + item.len() + after.len(),
            Around::Protobuf => splice::item_length(item.len()),
        }
    }

    fn write(&self, out: &mut Vec<u8>, item: &Bytes, is_first: bool) {
        match self {
            Around::Json { before, after } => {
                if !is_first {
                    out.push(b',');
                }
                out.extend_from_slice(before.as_bytes());
                out.extend_from_slice(item);
                out.extend_from_slice(after.as_bytes());
            }
            Around::Protobuf => splice::put_item(out, item),
        }
    }
}

impl From<Pieces> for Body {
    fn from(pieces: Pieces) -> Body {
        Body::new(pieces)
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.next();
        Poll::Ready((!piece.is_empty()).then(|| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use http_body::Body as _;
    use http_body_util::BodyExt as _;

    use super::*;

    fn json(items: Vec<Bytes>) -> Pieces {
        let around = Around::Json {
            before: "<".to_owned(),
            after: ">",
        };
        Pieces::of(b"[".to_vec(), items, around, b"]")
    }

    #[tokio::test]
    async fn a_list_comes_in_pieces_whose_length_is_known_before() {
        for (count, size) in [(0, 0), (1, 5), (2, PIECE_BYTES), (1000, 333), (3, 1)] {
            let items: Vec<Bytes> = (0..count).map(|_| vec![b'x'; size].into()).collect();
            let text = format!("<{}>", "x".repeat(size));
            let whole = format!("[{}]", vec![text; count].join(","));
            let mut body = json(items);
            assert_eq!(body.size_hint().exact(), Some(whole.len() as u64));
            let mut got = Vec::new();
            while !body.is_end_stream() {
                let piece = body.frame().await.unwrap().unwrap().into_data().unwrap();
                // A comma, or the end, may come on top of an item.
                let bound = PIECE_BYTES.max(size + 2) + 2;
                assert!(piece.len() <= bound, "{} > {bound}", piece.len());
                got.extend_from_slice(&piece);
                let left = (whole.len() - got.len()) as u64;
                assert_eq!(body.size_hint().exact(), Some(left));
            }
            assert_eq!(String::from_utf8(got).unwrap(), whole);
            assert!(body.frame().await.is_none());
        }
    }
}
