//! Contacts of the table `ps_contacts` of Asterisk's PJSIP: what a telephone has registered there, as it would have
//! registered it here.

use super::{
    asterisk::Objects,
    location::{ForeignContact, LeasedContact, address_of, sip},
    tables::{TableRow, Tables},
};
use busyhour::clock::UnixTime;
use busyhour_registrar::{Contact, ContactParts};
use busyhour_sip::{Address, Flow, Scheme, SipUri};
use std::net::SocketAddr;

/// The contacts of the table, which does not say at which address of Asterisk they registered: `local`, if that is known.
pub(super) fn contacts(tables: &Tables, local: Option<SocketAddr>) -> Vec<ForeignContact> {
    let users = Objects::of(tables).users();
    let rows = tables.rows("ps_contacts").iter();
    rows.map(|row| {
        let aor = aor(row);
        ForeignContact {
            place: row.place.clone(),
            user: users.get(&aor).cloned().unwrap_or(aor),
            domain: None,
            leased: leased(row, local),
        }
    })
    .collect()
}

/// The name of a row is that of its address of record, with a hash of the contact behind it.
fn aor(row: &TableRow) -> String {
    let id = decoded(row.text("id").unwrap_or_default());
    let aor = id.rsplit_once(";@").map_or(id.as_str(), |(aor, _)| aor);
    aor.to_owned()
}

fn leased(row: &TableRow, local: Option<SocketAddr>) -> Result<Option<LeasedContact>, String> {
    let text = |column| decoded(row.text(column).unwrap_or_default());
    let (reached, path) = (text("uri"), text("path"));
    let address = sip(&reached).ok_or_else(|| format!("uri: `{reached}` is no SIP URI"))?;
    let is_datagram = match address.param("transport") {
        Some(Some(transport)) => transport.eq_ignore_ascii_case("udp"),
        _ => address.scheme == Scheme::Sip,
    };
    if path.is_empty() && (!is_datagram || row.text("prune_on_boot") == Some("yes")) {
        return Ok(None);
    }
    let uri = registered(&reached, &address);
    let first = Address::parse(&path);
    let hop = first.as_ref().and_then(|path| path.uri.as_sip().copied());
    let remote = address_of(&hop.unwrap_or(address)).ok_or("uri: it names no address")?;
    let local = local.ok_or("give --socket, the address at which its telephone registered")?;
    let contact = Contact::new(ContactParts {
        uri: &uri,
        parameters: "",
        q_milli: None,
        call_id: &text("call_id"),
        path: &path,
        user_agent: &text("user_agent"),
        flow: Flow::udp(local, remote),
    });
    Ok(Some(LeasedContact {
        contact,
        cseq: 1,
        ends_at: end(&text("expiration_time"))?,
    }))
}

/// The URI as the telephone gave it: `rewrite_contact` puts in the address that it was heard from, and keeps its own in a
/// parameter.
fn registered(reached: &str, address: &SipUri<'_>) -> String {
    let Some(Some(original)) = address.param(ORIGINAL_HOST) else {
        return reached.to_owned();
    };
    let parameter = format!(";{ORIGINAL_HOST}={original}");
    let rest = reached.replacen(&parameter, "", 1);
    let begin = rest
        .find('@')
        .or_else(|| rest.find(':'))
        .map_or(0, |place| place + 1);
    let end = rest[begin..]
        .find([';', '?'])
        .map_or(rest.len(), |place| begin + place);
    format!("{}{original}{}", &rest[..begin], &rest[end..])
}

/// Its drivers write a semicolon as `^3B`, and a circumflex as `^5E`.
fn decoded(text: &str) -> String {
    text.replace("^3B", ";")
        .replace("^3b", ";")
        .replace("^5E", "^")
        .replace("^5e", "^")
}

/// Seconds since 1970; none for a contact that was written down.
fn end(text: &str) -> Result<UnixTime, String> {
    match text.parse() {
        Ok(0) => Err("expiration_time: it has no end, as a contact that was written down; give its device an account that registers".into()),
        Ok(seconds) => Ok(UnixTime::from_secs(seconds)),
        Err(_) => Err(format!("expiration_time: `{text}` is no time")),
    }
}

const ORIGINAL_HOST: &str = "x-ast-orig-host";

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[(&str, &str)]) -> TableRow {
        let usual = [
            ("id", "200^3B@6fa1b2"),
            ("uri", "sip:200@203.0.113.9:40000^3Bob"),
            ("expiration_time", "1800000000"),
            ("user_agent", "phone"),
            ("call_id", "abc"),
            ("prune_on_boot", "no"),
        ];
        let fields = usual.iter().chain(fields);
        let fields = fields.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        TableRow {
            place: "row 1".into(),
            fields: fields.collect(),
        }
    }

    fn here() -> SocketAddr {
        "192.0.2.1:5060".parse().unwrap()
    }

    fn taken(fields: &[(&str, &str)]) -> LeasedContact {
        leased(&row(fields), Some(here())).unwrap().unwrap()
    }

    fn refused(fields: &[(&str, &str)]) -> String {
        leased(&row(fields), Some(here())).unwrap_err()
    }

    #[test]
    fn a_contact_is_reached_where_asterisk_reached_it() {
        let LeasedContact {
            contact, ends_at, ..
        } = taken(&[]);
        let parts = contact.parts();
        let remote = "203.0.113.9:40000".parse().unwrap();
        assert_eq!(parts.flow, Flow::udp(here(), remote));
        assert_eq!(
            (parts.uri, parts.call_id, parts.user_agent),
            ("sip:200@203.0.113.9:40000;ob", "abc", "phone")
        );
        assert_eq!(ends_at, UnixTime::from_secs(1_800_000_000));
        assert_eq!(aor(&row(&[])), "200");
        assert_eq!(aor(&row(&[("id", "a^5Eb^3B@1")])), "a^b");
    }

    /// What `rewrite_contact` has changed is changed back, so that the telephone's next REGISTER is for the same contact.
    #[test]
    fn a_rewritten_contact_has_its_own_uri_and_the_address_that_it_came_from() {
        for (uri, expected) in [
            (
                "sip:200@203.0.113.9:40000^3Bx-ast-orig-host=10.0.0.5:5070",
                "sip:200@10.0.0.5:5070",
            ),
            (
                "sip:200@203.0.113.9:40000^3Btransport=udp^3Bx-ast-orig-host=10.0.0.5:5070^3Bob",
                "sip:200@10.0.0.5:5070;transport=udp;ob",
            ),
            (
                "sip:203.0.113.9:40000^3Bx-ast-orig-host=10.0.0.5",
                "sip:10.0.0.5",
            ),
        ] {
            let contact = taken(&[("uri", uri)]).contact;
            assert_eq!(contact.uri(), expected);
            assert_eq!(contact.flow().remote.to_string(), "203.0.113.9:40000");
            assert!(contact.is_translated(), "{expected}");
        }
    }

    #[test]
    fn connections_end_with_asterisk() {
        for fields in [
            ("uri", "sip:200@203.0.113.9:40000^3Btransport=TLS"),
            ("uri", "sip:200@203.0.113.9:40000^3Btransport=ws"),
            ("uri", "sips:200@203.0.113.9:40000"),
            ("prune_on_boot", "yes"),
        ] {
            let left_out = leased(&row(&[fields]), Some(here())).unwrap();
            assert!(left_out.is_none(), "{fields:?}");
        }
        let path = taken(&[("path", "<sip:198.51.100.3^3Blr>")]).contact;
        assert_eq!(path.flow().remote.to_string(), "198.51.100.3:5060");
        assert_eq!(path.path(), "<sip:198.51.100.3;lr>");
    }

    #[test]
    fn what_cannot_be_reached_or_never_ends_is_refused() {
        assert!(refused(&[("uri", "tel:123")]).contains("no SIP URI"));
        assert!(refused(&[("uri", "sip:200@phone.example")]).contains("names no address"));
        assert!(refused(&[("expiration_time", "0")]).contains("no end"));
        assert!(refused(&[("expiration_time", "soon")]).contains("no time"));
        let nowhere = leased(&row(&[]), None).unwrap_err();
        assert!(nowhere.contains("--socket"), "{nowhere}");
    }
}
