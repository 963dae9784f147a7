//! What must hold for any bytes; tests and fuzzer share it.

use busyhour_iax2::frames::{ElementWriter, Elements, Frame};

/// Reads `bytes` as a frame; the frame must be written back octet by octet.
pub fn hold(bytes: &[u8]) {
    let Ok(Frame::Full(frame)) = Frame::parse(bytes) else {
        return;
    };
    let mut again = Vec::new();
    frame.write(&mut again);
    assert_eq!(again, bytes);
    let Some(elements) = Elements::parse(frame.payload) else {
        return;
    };
    let mut copied = Vec::new();
    for (element, data) in elements.iter() {
        ElementWriter::new(&mut copied).data(element, data);
        let _ = (elements.text(element), elements.number(element));
    }
    assert_eq!(copied, frame.payload);
    let _ = (elements.apparent_address(), elements.date_time());
}
