//! How messages are laid out for the wire: prost's encoding in buffers that fit the message.
//!
//! tonic's own codec begins each call with two buffers of 8 KiB. Most of etcd's messages take
//! some hundred bytes, and a server of small calls would spend a tenth of its time on memory.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::ProstDecoder;

/// Bytes a call's buffer begins with: a header with its revision, or a request for a key. Larger
/// messages reserve what they take.
const FIRST_BYTES: usize = 128;

/// Messages that are ready together are sent together, up to about so many bytes (tonic's own).
const YIELD_BYTES: usize = 32 << 10;

/// The codec of all services and clients of this crate: encodes `T`, decodes `U`.
#[derive(Debug)]
pub struct ProtoCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for ProtoCodec<T, U> {
    fn default() -> Self {
        ProtoCodec(PhantomData)
    }
}

impl<T, U> Codec for ProtoCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProtoEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> ProtoEncoder<T> {
        ProtoEncoder(PhantomData)
    }

    fn decoder(&mut self) -> ProstDecoder<U> {
        ProstDecoder::new(settings())
    }
}

#[derive(Debug)]
pub struct ProtoEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for ProtoEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.reserve(message.encoded_len());
        message
            .encode(buffer)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        settings()
    }
}

fn settings() -> BufferSettings {
    BufferSettings::new(FIRST_BYTES, YIELD_BYTES)
}
