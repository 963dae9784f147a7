//! The requests of RFC 4475 that a proxy has to forward as they are, or to refuse.

use crate::support::*;
use busyhour_proxy::RequestRefusal;
use busyhour_sip::Message;

fn wire(text: &str) -> String {
    text.replace('\n', "\r\n")
}

/// What is sent for a request, and that it is sound.
fn forwarded(text: &str) -> String {
    let mut unchanged = target(1);
    unchanged.uri = None;
    let mut bench = Bench::new();
    let sent = bench.call(&wire(text), unchanged);
    let text = sent[0].text.clone();
    let message = Message::parse(text.as_bytes()).expect("a message");
    assert_eq!(message.validate(), Ok(()), "{text}");
    text
}

fn refused(text: &str) -> u16 {
    let mut bench = Bench::new();
    let refusal = bench.try_begin(alice(), &wire(text)).expect_err("refused");
    let sent = bench.take().remove(0);
    assert!(
        sent.text
            .starts_with(&format!("SIP/2.0 {} ", refusal.status().code()))
    );
    refusal.status().code()
}

/// RFC 4475 §3.1.1.1: folds, spaces and unknown parameters pass untouched.
#[test]
fn wsinv_white_space_is_forwarded_as_it_is() {
    let sent = forwarded(
        "INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0\n\
         TO :\n sip:vivekg@chair-dnrc.example.com ;   tag    = 1918181833n\n\
         from   : \"J Rosenberg \\\\\\\"\"       <sip:jdrosen@example.com>\n  ;\n  tag = 98asjd8\n\
         MaX-fOrWaRdS: 0068\n\
         Call-ID: wsinv.ndaksdj@192.0.2.1\n\
         Content-Length   : 4\n\
         cseq: 0009\n  INVITE\n\
         Via  : SIP  /   2.0\n /UDP\n    192.0.2.2;branch=390skdjuw\n\
         s :\n\
         NewFangledHeader:   newfangled value\n continued newfangled value\n\
         UnknownHeaderWithUnusualValue: ;;,,;;,;\n\
         Route:\n <sip:services.example.com;lr;unknownwith=value;unknown-no-value>\n\
         v:  SIP  / 2.0  / TCP     spindle.example.com   ;\n  branch  =   z9hG4bK9ikj8  ,\n SIP  /    2.0   / UDP  192.168.255.111   ; branch=\n z9hG4bK30239\n\
         m:\"Quoted string \\\"\\\"\" <sip:jdrosen@example.com> ; newparam =\n      newvalue ;\n  secondparam ; q = 0.33\n\n\
         v=0\n",
    );
    assert!(sent.starts_with("INVITE sip:vivekg@chair-dnrc.example.com;unknownparam SIP/2.0\r\n"));
    for part in [
        "TO :\r\n sip:vivekg@chair-dnrc.example.com ;   tag    = 1918181833n\r\n",
        "Max-Forwards: 67\r\n",
        "cseq: 0009\r\n  INVITE\r\n",
        "NewFangledHeader:   newfangled value\r\n continued newfangled value\r\n",
        "UnknownHeaderWithUnusualValue: ;;,,;;,;\r\n",
        "Route:\r\n <sip:services.example.com;lr;unknownwith=value;unknown-no-value>\r\n",
        "v:  SIP  / 2.0  / TCP     spindle.example.com   ;\r\n",
    ] {
        assert!(sent.contains(part), "{part} in {sent}");
    }
    let message = Message::parse(sent.as_bytes()).expect("a message");
    assert_eq!(message.vias().count(), 4);
}

/// RFC 4475 §3.1.1.2: an unknown method of every legal character, with a body.
#[test]
fn intmeth_an_unknown_method_is_forwarded() {
    let method = "!interesting-Method0123456789_*+`.%indeed'~";
    let uri = "sip:1_unusual.URI~(to-be!sure)&isn't+it$/crazy?,/;;*:&it+has=1,weird!*pas$wo~d_too.(doesn't-it)@example.com";
    let text = format!(
        "{method} {uri} SIP/2.0\nVia: SIP/2.0/TCP host1.example.com;branch=z9hG4bK-.!%66*_+`'~\n\
         To: \"BEL:\\\x07 NUL:\\\0 DEL:\\\x7f\" <{uri}>\n\
         From: token1~` token2'+_ token3*%!.- <sip:mundane@example.com>\n ;tag=_token~1'+`*%!-.\n\
         Call-ID: intmeth.word%ZK-!.*_+'@word`~)(><:\\/\"][?}}{{\nCSeq: 139122385 {method}\nMax-Forwards: 255\n\
         extensionHeader-!.%*+_`'~:\u{feff}大停電\nContent-Length: 0\n\n"
    );
    let sent = forwarded(&text);
    assert!(sent.starts_with(&format!("{method} {uri} SIP/2.0\r\n")));
    assert!(sent.contains("\u{feff}大停電"));
    assert!(sent.contains("Max-Forwards: 254\r\n"));
}

/// RFC 4475 §3.1.1.3 to §3.1.1.5: escapes are not touched.
#[test]
fn esc01_escapes_are_forwarded_as_they_are() {
    let sent = forwarded(
        "INVITE sip:sips%3Auser%40example.com@example.net SIP/2.0\n\
         To: sip:%75se%72@example.com\nFrom: <sip:I%20have%20spaces@example.net>;tag=938\n\
         Max-Forwards: 87\ni: esc01.239409asdfakjkn23onasd0-3234\nCSeq: 234234 INVITE\n\
         Via: SIP/2.0/UDP host5.example.net;branch=z9hG4bKkdjuw\n\
         C: application/sdp\nContact: <sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31>\n\
         Content-Length: 0\n\n",
    );
    assert!(sent.starts_with("INVITE sip:sips%3Auser%40example.com@example.net SIP/2.0\r\n"));
    assert!(sent.contains("<sip:cal%6Cer@host5.example.net;%6C%72;n%61me=v%61lue%25%34%31>"));
    assert!(sent.contains("i: esc01.239409asdfakjkn23onasd0-3234\r\n"));
}

/// RFC 4475 §3.1.1.7: long values pass.
#[test]
fn longreq_long_values_are_forwarded() {
    let long = "z".repeat(2_000);
    let vias: String = (0..34)
        .map(|hop| format!("Via: SIP/2.0/TCP sip{hop}.example.com\n"))
        .collect();
    let text = format!(
        "INVITE sip:user@example.com SIP/2.0\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bK{long}\n{vias}\
         To: \"I have a user name of {long}\" <sip:user@example.com>\nFrom: <sip:a@x>;tag={long}\n\
         Call-ID: {long}\nCSeq: 3882340 INVITE\nMax-Forwards: 70\n\
         Unknown-{long}: {long}\nContent-Length: 0\n\n"
    );
    let sent = forwarded(&text);
    assert!(sent.contains(&format!("Unknown-{long}: {long}\r\n")));
    assert_eq!(lines(&sent, "Via").len(), 36);
}

/// RFC 4475 §3.1.1.8: what follows the body is not part of the message.
#[test]
fn dblreq_what_follows_the_body_is_not_forwarded() {
    let sent = forwarded(
        "OPTIONS sip:user@example.com SIP/2.0\nTo: <sip:j@example.com>\nFrom: <sip:a@x>;tag=1\n\
         Max-Forwards: 8\nCall-ID: dblreq\nContent-Length: 0\nCSeq: 8 OPTIONS\n\
         Via: SIP/2.0/UDP 192.0.2.125;branch=z9hG4bKkdjuw23492\n\nINVITE sip:joe@example.com SIP/2.0\n",
    );
    assert!(sent.ends_with("\r\n\r\n") && !sent.contains("joe"));
}

/// RFC 4475 §3.1.1.10: the transport of the last hop is unknown; it is not ours to judge.
#[test]
fn transports_of_earlier_hops_may_be_unknown() {
    let sent = forwarded(
        "OPTIONS sip:user@example.com SIP/2.0\nTo: sip:user@example.com\nFrom: <sip:c@e>;tag=323\n\
         Max-Forwards: 70\nCall-ID: transports.kijh4akdnaqjkwendsasfdj\nAccept: application/sdp\nCSeq: 60 OPTIONS\n\
         Via: SIP/2.0/UDP t1.example.com;branch=z9hG4bKkdjuw\nVia: SIP/2.0/SCTP t2.example.com;branch=z9hG4bKklasjdhf\n\
         Via: SIP/2.0/UNKNOWN t4.example.com;branch=z9hG4bKasd0f3en\nl: 0\n\n",
    );
    assert!(sent.contains("Via: SIP/2.0/UNKNOWN t4.example.com;branch=z9hG4bKasd0f3en\r\n"));
}

/// RFC 4475 §3.1.1.11: a body of several parts passes byte by byte.
#[test]
fn mpart01_a_body_is_forwarded_byte_by_byte() {
    let body = "--7a9c\r\nContent-Type: text/plain\r\n\r\nHello\0\u{1}\r\n--7a9c--";
    let text = format!(
        "MESSAGE sip:kumiko@example.org SIP/2.0\nVia: SIP/2.0/UDP 127.0.0.1:5070;branch=z9hG4bK-d87543\n\
         Max-Forwards: 70\nRoute: <sip:127.0.0.1:5080>\nContact: <sip:f@127.0.0.1:5070>\n\
         To: <sip:kumiko@example.org>\nFrom: <sip:fluffy@example.com>;tag=2fb0dcc9\nCall-ID: 3d9485ad\n\
         CSeq: 1 MESSAGE\nContent-Type: multipart/mixed;boundary=7a9c\nContent-Length: {}\n\n",
        body.len()
    );
    let mut unchanged = target(1);
    unchanged.uri = None;
    let sent = Bench::new().call(&(wire(&text) + body), unchanged);
    assert!(sent[0].text.ends_with(body));
    // Its Route has no `lr`: it is a strict router.
    assert!(
        sent[0]
            .text
            .starts_with("MESSAGE sip:127.0.0.1:5080 SIP/2.0\r\n")
    );
    assert_eq!(lines(&sent[0].text, "Route"), ["<sip:kumiko@example.org>"]);
}

/// RFC 4475 §3.1.1.13: a response with an unusual reason phrase goes back as it is.
#[test]
fn unreason_any_reason_phrase_goes_back() {
    let mut bench = Bench::new();
    let forwarded = bench.call(&invite(), target(1));
    for reason in ["= 2**3 * 5**2 но сто девяносто девять - простое", ""]
    {
        let ok =
            response(&forwarded[0].text, 200, "b").replace("200 Reason", &format!("200 {reason}"));
        assert!(bench.respond(bob(1), &ok));
        assert!(
            bench.take()[0]
                .text
                .starts_with(&format!("SIP/2.0 200 {reason}\r\n"))
        );
    }
}

/// RFC 4475 §3.1.2: what is malformed is refused, and never forwarded.
#[test]
fn malformed_requests_are_refused() {
    let request = |start: &str, lines: &str| {
        format!(
            "{start}\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKx;rport\nCall-ID: x\n\
             Max-Forwards: 70\n{lines}Content-Length: 0\n\n"
        )
    };
    let ends = "From: <sip:a@x>;tag=1\nTo: <sip:b@y>\nCSeq: 1 INVITE\n";
    let start = "INVITE sip:user@example.com SIP/2.0";
    let cases = [
        // §3.1.2.1 badinv01: extraneous header field separators.
        request(
            start,
            "From: \"Watson\" <sip:a@x>;;;,;,,\nTo: <sip:b@y>\nCSeq: 1 INVITE\n",
        ),
        // §3.1.2.4 scalar02: a CSeq out of range.
        request(
            start,
            "From: <sip:a@x>;tag=1\nTo: <sip:b@y>\nCSeq: 36893488147419103232 INVITE\n",
        ),
        // §3.1.2.5 quotbal: an open quote.
        request(
            start,
            "From: <sip:a@x>;tag=1\nTo: \"Mr. J. User <sip:j@e>\nCSeq: 1 INVITE\n",
        ),
        // §3.1.2.9 lwsruri and §3.1.2.7 ltgtruri: brackets around the Request-URI.
        request("INVITE <sip:user@example.com> SIP/2.0", ends),
        // §3.1.2.10 escruri: headers in the Request-URI.
        request(
            "INVITE sip:user@example.com?Route=%3Csip:example.com%3E SIP/2.0",
            ends,
        ),
        // §3.1.2.15 mismatch01: two methods.
        request(
            start,
            "From: <sip:a@x>;tag=1\nTo: <sip:b@y>\nCSeq: 8 OPTIONS\n",
        ),
        // §3.3.1 insuf: no To, no From, no CSeq.
        request(start, ""),
        // §3.3.8 multi01: values that may stand once.
        request(start, &format!("{ends}From: <sip:c@z>;tag=2\n")),
    ];
    for text in &cases {
        assert_eq!(refused(text), 400, "{text}");
    }
}

/// RFC 4475 §3.3.2, §3.3.3: unknown schemes of the Request-URI.
#[test]
fn unkscm_and_novelsc_get_416() {
    for uri in [
        "nobodyKnowsThisScheme:totallyopaquecontent",
        "soap.beep://192.0.2.103:3002",
    ] {
        let text = format!(
            "OPTIONS {uri} SIP/2.0\nTo: sip:user@example.com\nFrom: sip:c@e;tag=384\nMax-Forwards: 3\n\
             Call-ID: unkscm\nCSeq: 3923423 OPTIONS\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKzalk\nl: 0\n\n"
        );
        assert_eq!(refused(&text), 416);
    }
}

/// RFC 4475 §3.3.4: a proxy does not look at the scheme of To and From.
#[test]
fn unksm2_unknown_schemes_in_to_are_forwarded() {
    let sent = forwarded(
        "OPTIONS sip:user@example.com SIP/2.0\nTo: isbn:2983792873\nFrom: <http://www.example.com>;tag=3234\n\
         Max-Forwards: 70\nCall-ID: unksm2.daksdj@hyphenated-host.example.com\nCSeq: 234902 OPTIONS\n\
         Via: SIP/2.0/UDP host1.example.com;branch=z9hG4bKkdjuw\nl: 0\n\n",
    );
    assert_eq!(lines(&sent, "To"), ["isbn:2983792873"]);
}

/// RFC 4475 §3.3.5: a proxy answers Proxy-Require, and leaves Require alone.
#[test]
fn bext01_is_refused_for_proxy_require_only() {
    let text = |lines: &str| {
        format!(
            "OPTIONS sip:user@example.com SIP/2.0\nTo: sip:j_user@example.com\nFrom: sip:caller@example.net;tag=242etr\n\
             Max-Forwards: 6\nCall-ID: bext01.0ha0isndaksdj\n{lines}CSeq: 8 OPTIONS\n\
             Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKkdjuw\nContent-Length: 0\n\n"
        )
    };
    let both = "Require: nothingSupportsThis\nProxy-Require: noProxiesSupportThis\n";
    assert_eq!(refused(&text(both)), 420);
    forwarded(&text("Require: nothingSupportsThis\n"));
}

/// RFC 4475 §3.3.11: Max-Forwards 0 is not forwarded.
#[test]
fn zeromf_ends_here() {
    let text = "OPTIONS sip:user@example.com SIP/2.0\nTo: sip:user@example.com\nFrom: sip:caller@example.net;tag=3ghsd41\n\
                Call-ID: zeromf.jfasdlfnm2o2l43r5u0asdfas\nCSeq: 39234321 OPTIONS\n\
                Via: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKkdjuw2349i\nMax-Forwards: 0\nContent-Length: 0\n\n";
    assert_eq!(refused(text), RequestRefusal::TooManyHops.status().code());
}

/// RFC 4475 §3.3.13: a body without Content-Length in a datagram gets one on its way.
#[test]
fn a_body_without_length_gets_its_length() {
    let text = "MESSAGE sip:user@example.com SIP/2.0\nTo: sip:user@example.com\nFrom: sip:c@e;tag=1\n\
                Call-ID: clen\nCSeq: 1 MESSAGE\nVia: SIP/2.0/UDP 192.0.2.7;branch=z9hG4bKk\nMax-Forwards: 7\n\nHello";
    let sent = forwarded(text);
    assert!(sent.contains("Content-Length: 5\r\n"), "{sent}");
    assert!(sent.ends_with("\r\n\r\nHello"));
}

/// RFC 4475 §3.4.1: a request of an RFC 2543 client.
#[test]
fn inv2543_is_forwarded() {
    let sent = forwarded(
        "INVITE sip:UserB@example.com SIP/2.0\nVia: SIP/2.0/UDP iftgw.example.com\nFrom: <sip:+13035551111@ift.client.example.net;user=phone>\n\
         Record-Route: <sip:UserB@example.com;maddr=ss1.example.com>\nTo: sip:+16505552222@ss1.example.net;user=phone\n\
         Call-ID: inv2543.1717@ift.client.example.com\nCSeq: 56 INVITE\nContent-Length: 0\n\n",
    );
    assert_eq!(lines(&sent, "Max-Forwards"), ["70"]);
    assert_eq!(lines(&sent, "Record-Route").len(), 2);
}
