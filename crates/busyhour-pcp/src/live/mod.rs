//! Values from a running `pmcd`, by the messages (PDUs) that it takes and gives. Nothing
//! here touches a socket: bytes come in, bytes go out.

pub(crate) mod limits;
pub(crate) mod pdu;
pub(crate) mod reply;
pub(crate) mod domains;
pub(crate) mod client;
