//! What must hold for any bytes; tests and fuzzer share it.

use busyhour_sip::stun;
use std::net::SocketAddr;

/// An answer is STUN of the same transaction, is short, and contains the
/// source. Without an answer, nothing is written. Whoever asked reads the same source in it, and
/// nothing breaks who reads any bytes as an answer.
pub fn hold(bytes: &[u8]) {
    let transaction = |bytes: &[u8]| bytes.get(8..20).and_then(|it| it.try_into().ok());
    if let Some(transaction) = transaction(bytes) {
        let _ = stun::mapped_address(bytes, transaction);
    }
    for source in ["192.0.2.1:32853", "[2001:db8::1]:40000"] {
        let source: SocketAddr = source.parse().expect("an address");
        let mut out = Vec::new();
        let is_answered = stun::is_stun(bytes) && stun::answer(bytes, source, &mut out);
        assert_eq!(is_answered, !out.is_empty());
        if is_answered {
            answer_holds(bytes, source, &out);
        }
    }
}

fn answer_holds(request: &[u8], source: SocketAddr, answer: &[u8]) {
    assert!(stun::is_stun(answer), "{answer:02x?}");
    assert!(answer.len() <= request.len() + 24, "{answer:02x?}");
    assert_eq!(
        answer[4..20],
        request[4..20],
        "the answer has the cookie and the transaction id of the request"
    );
    match answer[..2] {
        [1, 1] => {
            assert_eq!(mapped_address(answer), source);
            let transaction = request[8..20].try_into().expect("twelve bytes");
            assert_eq!(stun::mapped_address(answer, transaction), Some(source));
        }
        [1, 0x11] => assert!(answer.len() > 20, "an error has its code"),
        _ => panic!("{answer:02x?}"),
    }
    let mut again = Vec::new();
    assert!(
        !stun::answer(answer, source, &mut again),
        "a response gets no response"
    );
}

/// XOR-MAPPED-ADDRESS, the only attribute of a success (RFC 5389 §15.2).
fn mapped_address(answer: &[u8]) -> SocketAddr {
    let value = &answer[24..];
    assert_eq!(answer[20..22], [0x00, 0x20]);
    let port = u16::from_be_bytes([value[2] ^ answer[4], value[3] ^ answer[5]]);
    let plain = value[4..]
        .iter()
        .zip(&answer[4..20])
        .map(|(byte, key)| byte ^ key);
    let plain: Vec<u8> = plain.collect();
    match (
        value[1],
        <[u8; 4]>::try_from(&*plain),
        <[u8; 16]>::try_from(&*plain),
    ) {
        (1, Ok(address), _) => (address, port).into(),
        (2, _, Ok(address)) => (address, port).into(),
        _ => panic!("{value:02x?}"),
    }
}
