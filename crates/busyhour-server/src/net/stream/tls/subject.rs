//! Whom a certificate is for (RFC 5922 §7.1).

use rustls::pki_types::CertificateDer;
use std::net::IpAddr;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The domains and addresses in a certificate: those of `sip` URIs, DNS names and IP addresses
/// in its alternative names; only without any, its common name.
pub(super) fn names_in(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else {
        return Vec::new();
    };
    let alternative = certificate.subject_alternative_name().ok().flatten();
    let names = alternative.iter().flat_map(|it| &it.value.general_names);
    let names: Vec<_> = names.filter_map(alternative_name).collect();
    if !names.is_empty() {
        return names;
    }
    let common = certificate.subject().iter_common_name();
    let common = common.filter_map(|name| name.as_str().ok());
    common.map(str::to_owned).collect()
}

fn alternative_name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        // With a user it is that user's, and not the domain's.
        GeneralName::URI(uri) => {
            let (scheme, domain) = uri.split_once(':')?;
            let is_domain = scheme.eq_ignore_ascii_case("sip") && !domain.contains('@');
            is_domain.then(|| domain.to_owned())
        }
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(octets) => address(octets).map(|address| address.to_string()),
        _ => None,
    }
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    let v6 = <[u8; 16]>::try_from(octets).map(IpAddr::from);
    v4.or(v6).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    fn names(common: &str, alternative: Vec<SanType>) -> Vec<String> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, common);
        params.subject_alt_names = alternative;
        let made = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        names_in(made.der())
    }

    #[test]
    fn the_common_name_counts_only_without_an_alternative() {
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let dns = SanType::DnsName("pbx.example.net".try_into().unwrap());
        assert_eq!(names("pbx", vec![]), ["pbx"]);
        assert_eq!(names("pbx", vec![dns.clone()]), ["pbx.example.net"]);
        let address = SanType::IpAddress([192, 0, 2, 1].into());
        let all = [uri("sip:example.net"), dns, address];
        let found = names("pbx", all.into());
        assert_eq!(found, ["example.net", "pbx.example.net", "192.0.2.1"]);
    }

    #[test]
    fn the_uri_of_a_user_or_of_another_scheme_is_no_domain() {
        let uri = |text: &str| SanType::URI(text.try_into().unwrap());
        let others = vec![uri("sip:alice@example.net"), uri("https://example.net")];
        assert_eq!(names("pbx", others), ["pbx"]);
        assert!(names_in(&CertificateDer::from(vec![1, 2, 3])).is_empty());
    }
}
