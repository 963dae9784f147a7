//! The accounts of one domain register all the devices that they can: `limits.domain_percent`.

use crate::{
    ACCOUNTS, bystander,
    support::{
        Place,
        phone::{Phone, proven},
    },
};

const DOMAINS: &str = "
[[domain]]
name = \"a.example\"
[[domain]]
name = \"b.example\"
[[account]]
user = \"carol\"
domain = \"b.example\"
password = \"secret\"
";

/// A REGISTER of a user of a domain.
fn register(phone: &mut Phone, user: &str, domain: &str) -> String {
    let contact = format!("Contact: <sip:{user}@{}>\r\n", phone.address());
    let aor = format!("sip:{user}@{domain}");
    phone.request("REGISTER", &format!("sip:{domain}"), &aor, &contact)
}

#[test]
fn the_devices_of_all_accounts_of_a_domain_are_limited() {
    let place = Place::new();
    let account = |number: u32| {
        format!(
            "[[account]]\nuser = \"u{number}\"\ndomain = \"a.example\"\npassword = \"secret\"\n"
        )
    };
    let accounts: String = (0..SHARE + EXCESS).map(account).collect();
    let limits = "[limits]\ndevices = 3000\ndomain_percent = 10\n";
    let server = place.server(&format!("{limits}{ACCOUNTS}{DOMAINS}{accounts}"));
    let mut refused = 0_u64;
    // From several sources, none of which has more than its share.
    for source in 0..4_u32 {
        let mut phone = Phone::new(&server, 10 + source as u8, "greedy");
        let first = register(&mut phone, "u0", "a.example");
        let challenge = phone.challenge(&first);
        let own = (0..SHARE + EXCESS).filter(|number| number % 4 == source);
        let mut count = 0;
        for number in own {
            let user = format!("u{number}");
            let mut ask = || {
                let request = register(&mut phone, &user, "a.example");
                count += 1;
                phone.challenge(&proven(&request, &challenge, &user, "secret", count))
            };
            let mut answer = ask();
            // A busy machine may refuse one for a moment, but not twice.
            if answer.starts_with("SIP/2.0 503 ") {
                answer = ask();
            }
            match answer.split(' ').nth(1) {
                Some("200") => {}
                Some("503") => refused += 1,
                _ => panic!("{answer}"),
            }
        }
    }
    let registered = server.stat("/registrar/device_count");
    let all = u64::from(SHARE) + u64::from(EXCESS);
    assert_eq!(refused + registered, all, "{}", server.stats());
    // One in 260 domains shares both its cells with one of so many accounts, and has one less for each.
    let bound = u64::from(SHARE);
    assert!(
        (bound - 2..=bound).contains(&registered),
        "{registered}: {}",
        server.stats()
    );
    bystander::is_served(&server, 3, "user2");
    let mut carol = Phone::new(&server, 4, "carol");
    let request = register(&mut carol, "carol", "b.example");
    let answer = carol.ask(&request);
    assert!(answer.starts_with("SIP/2.0 200 "), "{answer}");
}

/// The least that a domain may have; a tenth of 3,000 is less.
const SHARE: u32 = 1024;
const EXCESS: u32 = 16;
