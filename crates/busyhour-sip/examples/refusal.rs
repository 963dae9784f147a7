//! Refuses new calls, and drops the ACKs of the refusals: as often as the first argument says,
//! read or unread as the second one does. `scripts/refusal-cost.sh --parts` counts its instructions.

use busyhour_sip::{HeaderName, Message, ResponseBuilder, Status, UnreadRequest, is_ack_to};
use std::{error::Error, hint::black_box, net::SocketAddr};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let count: u32 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let is_read = arguments.next().as_deref() == Some("read");
    let source = "127.0.0.1:40000".parse()?;
    let mut answer = Vec::with_capacity(2048);
    for _ in 0..count {
        answer.clear();
        let invite = black_box(INVITE.as_bytes());
        match is_read {
            true => refuse_read(invite, source, &mut answer)?,
            false => refuse_unread(invite, source, &mut answer)?,
        }
        let ack = black_box(ACK.as_bytes());
        let is_known = match is_read {
            true => {
                (Message::parse(ack)?.header(HeaderName::To)).is_some_and(|to| to.ends_with(TAG))
            }
            false => is_ack_to(ack, TAG),
        };
        assert!(is_known);
    }
    println!("{}", String::from_utf8(answer)?);
    Ok(())
}

fn refuse_read(
    invite: &[u8],
    source: SocketAddr,
    answer: &mut Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    let message = Message::parse(invite)?;
    // Whether it is known, and where the answer goes.
    let branch = message.via()?.branch().map(str::len);
    black_box((
        branch,
        message.cseq()?.number,
        message.via()?.reply_to(source),
    ));
    ResponseBuilder::new(answer, &message, Status::SERVICE_UNAVAILABLE, Some(source))
        .to_tag(TAG)
        .header(HeaderName::RetryAfter, 3)
        .finish();
    Ok(())
}

fn refuse_unread(
    invite: &[u8],
    source: SocketAddr,
    answer: &mut Vec<u8>,
) -> Result<(), Box<dyn Error>> {
    let request = UnreadRequest::find(invite).ok_or("it has to be read")?;
    let via = request.via();
    black_box((via.branch(), request.cseq().number, via.reply_to(source)));
    let status = Status::SERVICE_UNAVAILABLE;
    request.write_refusal(answer, (status, status.reason()), source, TAG, 3);
    Ok(())
}

const TAG: &str = "09de300030a3e657";

const INVITE: &str = "INVITE sip:device17@127.0.0.1 SIP/2.0\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:40000;branch=z9hG4bK18a2b3c4d5e6f70817;rport\r\n\
    Max-Forwards: 70\r\nFrom: <sip:caller17@127.0.0.1>;tag=f17\r\n\
    To: <sip:device17@127.0.0.1>\r\nCall-ID: 18a2b3c4d5e6f708-17\r\nCSeq: 1 INVITE\r\n\
    Contact: <sip:caller@127.0.0.1:40000>\r\nContent-Type: application/sdp\r\n\
    Content-Length: 97\r\n\r\n\
    v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 0 8 101 102\r\n";

const ACK: &str = "ACK sip:device17@127.0.0.1 SIP/2.0\r\n\
    Via: SIP/2.0/UDP 127.0.0.1:40000;branch=z9hG4bK18a2b3c4d5e6f70817;rport\r\n\
    Max-Forwards: 70\r\nFrom: <sip:caller17@127.0.0.1>;tag=f17\r\n\
    To: <sip:device17@127.0.0.1>;tag=09de300030a3e657\r\nCall-ID: 18a2b3c4d5e6f708-17\r\n\
    CSeq: 1 ACK\r\nContent-Length: 0\r\n\r\n";
