//! Contacts of the table `location` of Kamailio (`usrloc`) and of OpenSIPS: what a telephone has registered there, as it
//! would have registered it here.

use super::tables::{TableRow, Tables};
use busyhour::clock::UnixTime;
use busyhour_registrar::{Contact, ContactParts};
use busyhour_sip::{Address, Flow, Host, SipUri, Transport, Uri};
use jiff::{
    civil::DateTime,
    tz::{Offset, TimeZone},
};
use std::net::{IpAddr, SocketAddr};

/// A contact of another server, and where it was found.
pub(super) struct ForeignContact {
    /// The file and line, or the row.
    pub(super) place: String,
    pub(super) user: String,
    pub(super) domain: Option<String>,
    /// The contact with the end of its lease, or why it cannot be taken. Nothing if it is reached over a connection, which
    /// ends with the other server.
    pub(super) leased: Result<Option<LeasedContact>, String>,
}

/// A contact until its lease ends.
#[derive(Debug)]
pub(super) struct LeasedContact {
    pub(super) contact: Contact,
    pub(super) cseq: u32,
    pub(super) ends_at: UnixTime,
}

/// The contacts of the table. Its times without an offset have this one.
pub(super) fn contacts(tables: &Tables, offset: Offset) -> Vec<ForeignContact> {
    let rows = tables.rows("location").iter();
    rows.map(|row| ForeignContact {
        place: row.place.clone(),
        user: row.text("username").unwrap_or_default().to_owned(),
        domain: row.text("domain").map(str::to_owned),
        leased: leased(row, offset),
    })
    .collect()
}

fn leased(row: &TableRow, offset: Offset) -> Result<Option<LeasedContact>, String> {
    let text = |column| row.text(column).unwrap_or_default();
    let uri = text("contact");
    let address = sip(uri).ok_or_else(|| format!("contact: `{uri}` is no SIP URI"))?;
    let parts = ContactParts {
        uri,
        parameters: &parameters(row),
        q_milli: preference(text("q")),
        call_id: text("callid"),
        path: text("path"),
        user_agent: text("user_agent"),
        flow: flow(row, &address)?,
    };
    let contact = Contact::new(parts);
    let depends_on_connection = parts.flow.transport.is_reliable() && contact.depends_on_flow();
    if depends_on_connection && parts.path.is_empty() {
        return Ok(None);
    }
    Ok(Some(LeasedContact {
        contact,
        cseq: text("cseq").parse().unwrap_or(1),
        ends_at: end(text("expires"), offset)?,
    }))
}

pub(super) fn sip(text: &str) -> Option<SipUri<'_>> {
    Uri::parse(text)?.as_sip().copied()
}

/// What RFC 5626 identifies a device by. Kamailio's column has the quotes or not, OpenSIPS' has another name.
fn parameters(row: &TableRow) -> String {
    let mut parameters = String::new();
    if let Some(instance) = row.text("instance").or_else(|| row.text("sip_instance")) {
        let instance = instance.trim_matches('"').trim_matches(['<', '>']);
        parameters.push_str(&format!(";+sip.instance=\"<{instance}>\""));
    }
    if let Some(id) = row.text("reg_id").filter(|id| *id != "0") {
        parameters.push_str(&format!(";reg-id={id}"));
    }
    parameters
}

/// `None` for the -1 of a contact without one.
fn preference(text: &str) -> Option<u16> {
    let q: f64 = text.parse().ok()?;
    (0.0..=1.0)
        .contains(&q)
        .then(|| (q * 1000.0).round() as u16)
}

/// Which way it is reached: over the address that the registration came from, or to the proxy of its Path.
fn flow(row: &TableRow, contact: &SipUri<'_>) -> Result<Flow, String> {
    let socket = row.text("socket").ok_or("socket: there is none")?;
    let unknown =
        || format!("socket: `{socket}` is no transport and address, such as udp:192.0.2.1:5060");
    let (transport, local) = socket.split_once(':').ok_or_else(unknown)?;
    let transport: Transport = transport.parse().map_err(|_| unknown())?;
    let local: SocketAddr = local.parse().map_err(|_| unknown())?;
    let path = row.text("path").and_then(Address::parse);
    let hop = path.as_ref().and_then(|path| path.uri.as_sip().copied());
    let received = row.text("received");
    let remote = match (hop, received.map(sip)) {
        (Some(hop), _) => address_of(&hop),
        (None, Some(received)) => received.as_ref().and_then(address_of),
        (None, None) => address_of(contact),
    };
    let remote = remote.ok_or("neither received nor contact names an address")?;
    Ok(Flow {
        transport,
        ..Flow::udp(local, remote)
    })
}

pub(super) fn address_of(uri: &SipUri<'_>) -> Option<SocketAddr> {
    let ip: IpAddr = match uri.host {
        Host::V4(ip) => ip.into(),
        Host::V6(ip) => ip.into(),
        Host::Name(_) => return None,
    };
    let is_encrypted =
        matches!(uri.param("transport"), Some(Some(name)) if name.eq_ignore_ascii_case("tls"));
    let port = if is_encrypted { 5061 } else { 5060 };
    Some(SocketAddr::new(ip, uri.port.unwrap_or(port)))
}

/// When the lease ends: seconds since 1970, a date as text, or the Julian day that Kamailio writes to SQLite.
fn end(text: &str, offset: Offset) -> Result<UnixTime, String> {
    let unknown = || format!("expires: `{text}` is no time");
    if let Ok(number) = text.parse::<f64>() {
        let seconds = match number < JULIAN_DAYS_MAX {
            true => (number - JULIAN_DAY_OF_1970) * 86_400.0,
            false => number,
        };
        // Kamailio has 0 for a contact without an end.
        return match seconds.is_finite() && seconds > 0.0 {
            true => Ok(UnixTime::from_secs(seconds.round() as u64)),
            false => Err("expires: it has no end, as a contact that was written down; give its device an account that registers".into()),
        };
    }
    let with_offset = text.parse::<jiff::Timestamp>().ok();
    let at = with_offset.or_else(|| {
        let civil: DateTime = text.parse().ok()?;
        let zoned = civil.to_zoned(TimeZone::fixed(offset)).ok()?;
        Some(zoned.timestamp())
    });
    let seconds = at.ok_or_else(unknown)?.as_second();
    u64::try_from(seconds)
        .map(UnixTime::from_secs)
        .map_err(|_| unknown())
}

const JULIAN_DAY_OF_1970: f64 = 2_440_587.5;
/// In the year 3800; as seconds it is in February 1970.
const JULIAN_DAYS_MAX: f64 = 3_100_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn row(fields: &[(&str, &str)]) -> TableRow {
        let usual = [
            ("contact", "sip:alice@10.0.0.5:5070;ob"),
            ("received", "sip:203.0.113.9:40000"),
            ("socket", "udp:192.0.2.1:5060"),
            ("expires", "1800000000"),
            ("q", "-1"),
            ("callid", "abc"),
            ("cseq", "7"),
        ];
        let fields = usual.iter().chain(fields);
        let fields = fields.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        TableRow {
            place: "row 1".into(),
            fields: fields.collect(),
        }
    }

    fn taken(fields: &[(&str, &str)]) -> LeasedContact {
        leased(&row(fields), Offset::UTC).unwrap().unwrap()
    }

    fn refused(fields: &[(&str, &str)]) -> String {
        leased(&row(fields), Offset::UTC).unwrap_err()
    }

    #[test]
    fn a_contact_behind_nat_keeps_the_way_that_it_came() {
        let LeasedContact {
            contact,
            cseq,
            ends_at,
        } = taken(&[("q", "0.5"), ("user_agent", "phone")]);
        let parts = contact.parts();
        assert_eq!(
            parts.flow,
            Flow::udp(
                "192.0.2.1:5060".parse().unwrap(),
                "203.0.113.9:40000".parse().unwrap()
            )
        );
        assert_eq!(
            (parts.uri, parts.q_milli),
            ("sip:alice@10.0.0.5:5070;ob", Some(500))
        );
        assert_eq!((parts.call_id, parts.user_agent, cseq), ("abc", "phone", 7));
        assert_eq!(ends_at, UnixTime::from_secs(1_800_000_000));
    }

    #[test]
    fn a_contact_is_reached_where_it_says_or_over_its_path() {
        let remote = |fields: &[(&str, &str)]| taken(fields).contact.flow().remote.to_string();
        assert_eq!(remote(&[("received", "")]), "10.0.0.5:5070");
        let path = ("path", "<sip:198.51.100.3;lr>");
        assert_eq!(remote(&[path]), "198.51.100.3:5060");
        assert_eq!(
            remote(&[
                ("received", "sip:[2001:db8::9]:7"),
                ("socket", "udp:[2001:db8::1]:5060")
            ]),
            "[2001:db8::9]:7"
        );
        let name = refused(&[("received", ""), ("contact", "sip:alice@phone.example")]);
        assert!(name.contains("names an address"), "{name}");
        assert!(refused(&[("socket", "")]).contains("socket"));
        assert!(refused(&[("contact", "tel:123")]).contains("no SIP URI"));
    }

    #[test]
    fn connections_end_with_the_other_server() {
        let tcp = ("socket", "tcp:192.0.2.1:5060");
        for over in [
            tcp,
            ("socket", "wss:192.0.2.1:443"),
            ("socket", "tls:192.0.2.1:5061"),
        ] {
            assert!(
                leased(&row(&[over]), Offset::UTC).unwrap().is_none(),
                "{over:?}"
            );
        }
        // It listens, and is connected to.
        let listens = ("contact", "sip:alice@203.0.113.9:5060;transport=tcp");
        assert_eq!(taken(&[tcp, listens]).contact.transport(), Transport::Tcp);
        assert_eq!(
            taken(&[tcp, ("path", "<sip:198.51.100.3;lr>")])
                .contact
                .path(),
            "<sip:198.51.100.3;lr>"
        );
    }

    #[test]
    fn devices_are_known_by_their_instance() {
        let kamailio = taken(&[("instance", "\"<urn:uuid:1>\""), ("reg_id", "2")]).contact;
        assert_eq!(
            kamailio.parameters(),
            ";+sip.instance=\"<urn:uuid:1>\";reg-id=2"
        );
        let opensips = taken(&[("sip_instance", "<urn:uuid:1>"), ("reg_id", "0")]).contact;
        assert_eq!(
            (opensips.instance(), opensips.parameters()),
            (Some("urn:uuid:1"), ";+sip.instance=\"<urn:uuid:1>\"")
        );
    }

    #[test]
    fn every_form_of_a_time_is_read() {
        let at = |text: &str, offset| end(text, offset).map(|at| at.as_secs());
        let east = Offset::from_hours(2).unwrap();
        assert_eq!(at("2030-05-28 21:32:15", Offset::UTC), Ok(1_906_234_335));
        assert_eq!(at("2030-05-28 21:32:15", east), Ok(1_906_234_335 - 7200));
        assert_eq!(at("2030-05-28 21:32:15+00", east), Ok(1_906_234_335));
        assert_eq!(at("1906234335", east), Ok(1_906_234_335));
        assert_eq!(at("2462650.39739583", Offset::UTC), Ok(1_906_234_335));
        assert!(at("0", Offset::UTC).is_err() && at("soon", Offset::UTC).is_err());
    }
}
