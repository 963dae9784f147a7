use super::*;
use crate::config::Config;

#[test]
fn every_default_is_allowed_and_is_read_as_it_is_written() {
    for key in KEYS {
        let mut config = Config::default();
        let text = key.show(&config);
        key.set(&mut config, &text).unwrap();
        assert_eq!(config, Config::default(), "{}", key.path);
    }
}

#[test]
fn a_refused_value_is_reported_with_the_allowed_ones() {
    let mut config = Config::default();
    let key = SettingKey::find("sip.auth").unwrap();
    let refusal = key.set(&mut config, "basic").unwrap_err();
    assert_eq!(
        refusal,
        "sip.auth: `basic` is not allowed; give one of: digest, open"
    );
}

#[test]
fn bounds_are_kept() {
    let mut config = Config::default();
    let key = SettingKey::find("sip.max_contacts").unwrap();
    for text in ["0", "1001", "-1", "ten", "", "1.5"] {
        assert!(key.set(&mut config, text).is_err(), "{text}");
    }
    key.set(&mut config, "1000").unwrap();
    assert_eq!(config.registration.contacts_max, 1000);
}

#[test]
fn every_setting_has_a_section_and_a_name() {
    for key in KEYS {
        assert_eq!(format!("{}.{}", key.section(), key.name()), key.path);
    }
}
