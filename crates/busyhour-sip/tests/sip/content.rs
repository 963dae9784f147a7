//! Bodies that are compressed.

use busyhour_sip::{BodyEncodingError, Message};
use flate2::{
    Compression,
    write::{GzEncoder, ZlibEncoder},
};
use proptest::prelude::*;
use std::io::Write;

fn request(encoding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "PUBLISH sip:a@example.com SIP/2.0\r\nContent-Encoding: {encoding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn decoded(encoding: &str, body: &[u8], len_max: usize) -> Result<Vec<u8>, BodyEncodingError> {
    let bytes = request(encoding, body);
    let message = Message::parse(&bytes).expect("a request");
    message.decoded_body(len_max).map(|body| body.into_owned())
}

fn compressed(encoding: &str, plain: &[u8], level: u32) -> Vec<u8> {
    let level = Compression::new(level);
    if encoding == "gzip" {
        let mut encoder = GzEncoder::new(Vec::new(), level);
        encoder.write_all(plain).expect("memory");
        return encoder.finish().expect("memory");
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), level);
    encoder.write_all(plain).expect("memory");
    encoder.finish().expect("memory")
}

/// Made by zlib 1.2.13 and gzip 1.12 of the same 315 bytes.
#[test]
fn what_zlib_and_gzip_have_written_is_read() {
    let plain = b"<entry uri=\"sip:bob@example.com\"/>\n".repeat(9);
    for (encoding, bytes) in [
        ("deflate", BY_ZLIB),
        ("DEFLATE", BY_ZLIB),
        ("gzip", BY_GZIP),
    ] {
        assert_eq!(
            decoded(encoding, bytes, 1000).as_ref(),
            Ok(&plain),
            "{encoding}"
        );
    }
    let of_the_other = [("gzip", BY_ZLIB), ("deflate", BY_GZIP)];
    for (encoding, bytes) in of_the_other {
        assert_eq!(
            decoded(encoding, bytes, 1000),
            Err(BodyEncodingError::Broken),
            "{encoding}"
        );
    }
}

#[test]
fn other_encodings_and_several_are_not_supported_and_none_is_none() {
    let body = compressed("deflate", b"body", 6);
    for encoding in ["br", "deflate, deflate", "identity, deflate", "x"] {
        let read = decoded(encoding, &body, 1000);
        assert_eq!(read, Err(BodyEncodingError::Unsupported), "{encoding}");
    }
    assert_eq!(
        decoded("identity", b"body", 0),
        Ok(b"body".to_vec()),
        "it is as it came"
    );
    assert_eq!(decoded("br", b"", 0), Ok(Vec::new()), "there is none");
}

/// Sixty kilobytes that would be sixty million.
#[test]
fn a_bomb_takes_no_more_than_the_bound() {
    for encoding in ["deflate", "gzip"] {
        let bomb = compressed(encoding, &vec![b'a'; 60_000_000], 9);
        assert!(bomb.len() < 65_000, "{}", bomb.len());
        let bytes = request(encoding, &bomb);
        let message = Message::parse(&bytes).expect("a request");
        let mut read = None;
        let memory = allocation_counter::measure(|| read = Some(message.decoded_body(65_535)));
        assert_eq!(read.expect("it was read"), Err(BodyEncodingError::TooLong));
        // The bound, what the decoder itself keeps, and what grew meanwhile.
        assert!(memory.bytes_max < 320_000, "{encoding}: {memory:?}");
    }
}

proptest! {
    #[test]
    fn what_was_compressed_comes_back_and_what_is_cut_does_not(
        words in proptest::collection::vec("[a-d]{1,3}", 0..400),
        level in 0_u32..10,
        encoding in prop_oneof![Just("deflate"), Just("gzip")],
        cut in any::<proptest::sample::Index>(),
        more in any::<u8>(),
    ) {
        let plain = words.concat().into_bytes();
        let bytes = compressed(encoding, &plain, level);
        for len_max in [plain.len(), plain.len() + 1, 1 << 20] {
            prop_assert_eq!(decoded(encoding, &bytes, len_max), Ok(plain.clone()));
        }
        if let Some(less) = plain.len().checked_sub(1) {
            prop_assert_eq!(decoded(encoding, &bytes, less), Err(BodyEncodingError::TooLong));
        }
        let cut = cut.index(bytes.len());
        if cut > 0 {
            prop_assert_eq!(decoded(encoding, &bytes[..cut], 1 << 20), Err(BodyEncodingError::Broken));
        }
        let longer = [&bytes[..], &[more]].concat();
        prop_assert_eq!(decoded(encoding, &longer, 1 << 20), Err(BodyEncodingError::Broken));
    }
}

const BY_ZLIB: &[u8] = &[
    0x78, 0x9c, 0xb3, 0x49, 0xcd, 0x2b, 0x29, 0xaa, 0x54, 0x28, 0x2d, 0xca, 0xb4, 0x55, 0x2a, 0xce,
    0x2c, 0xb0, 0x4a, 0xca, 0x4f, 0x72, 0x48, 0xad, 0x48, 0xcc, 0x2d, 0xc8, 0x49, 0xd5, 0x4b, 0xce,
    0xcf, 0x55, 0xd2, 0xb7, 0xe3, 0xb2, 0x19, 0x55, 0x82, 0x55, 0x09, 0x00, 0xf6, 0xfe, 0x6d, 0x69,
];
const BY_GZIP: &[u8] = &[
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0xb3, 0x49, 0xcd, 0x2b, 0x29, 0xaa,
    0x54, 0x28, 0x2d, 0xca, 0xb4, 0x55, 0x2a, 0xce, 0x2c, 0xb0, 0x4a, 0xca, 0x4f, 0x72, 0x48, 0xad,
    0x48, 0xcc, 0x2d, 0xc8, 0x49, 0xd5, 0x4b, 0xce, 0xcf, 0x55, 0xd2, 0xb7, 0xe3, 0xb2, 0x19, 0x55,
    0x82, 0x55, 0x09, 0x00, 0xd2, 0x6c, 0x97, 0xbe, 0x3b, 0x01, 0x00, 0x00,
];
