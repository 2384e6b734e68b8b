//! Finds fixed-length headers in a stream of bytes cut anywhere. Each header is followed by a body,
//! which is skipped; only headers are copied.

#[derive(Debug)]
pub(crate) struct Framing<const N: usize> {
    header: [u8; N],
    /// Bytes of the header received.
    seen: usize,
    /// Bytes of the body still to come.
    rest: usize,
}

impl<const N: usize> Framing<N> {
    /// A stream whose first header begins after `rest` bytes.
    pub(crate) fn behind(rest: usize) -> Framing<N> {
        Framing {
            header: [0; N],
            seen: 0,
            rest,
        }
    }

    /// Calls `begun` with each header that ends in `data`; it returns the length of the body behind
    /// it. After an error, do not feed more.
    pub(crate) fn feed<E>(
        &mut self,
        mut data: &[u8],
        mut begun: impl FnMut(&[u8; N]) -> Result<usize, E>,
    ) -> Result<(), E> {
        while !data.is_empty() {
            if self.rest > 0 {
                let skip = self.rest.min(data.len());
                self.rest -= skip;
                data = &data[skip..];
                continue;
            }
            let take = (N - self.seen).min(data.len());
            self.header[self.seen..self.seen + take].copy_from_slice(&data[..take]);
            self.seen += take;
            data = &data[take..];
            if self.seen == N {
                self.seen = 0;
                self.rest = begun(&self.header)?;
            }
        }
        Ok(())
    }

    /// True if the next byte is the first of a header.
    pub(crate) fn is_between(&self) -> bool {
        self.seen == 0 && self.rest == 0
    }
}
