//! Credentials from an HTTP service: accounts that another program keeps.
//!
//! A client names its user only in the answer to a challenge. So a service is asked when an answer
//! has come whose nonce is ours, is fresh and was given to this source, and whose user has no
//! account here; whoever forges an address never gets so far. The request waits meanwhile, outside
//! of every strand, and is handled again as a whole when the service has answered: what was learned
//! is in the cache then.
//!
//! **States of a name**, in the shard of the name, under its lock:
//!
//! | state | what a request does | ends |
//! |---|---|---|
//! | *found* | uses the hashes | after `cache_seconds`, then it is *aged* |
//! | *aged* | as for *unknown*; if the service cannot be asked, uses the hashes again for five seconds | after `stale_seconds` |
//! | *missing* | is refused as without an account | after `missing_seconds` |
//! | *failed* | is answered 503 with Retry-After | after a second |
//! | *asked* | waits with the others | with the answer of the service |
//! | *unknown* | the service is asked | at once |
//!
//! **Nobody waits for ever.** Whoever makes a name *asked* hands the request over to the HTTP client
//! or ends it as failed. The client calls back once for each request it takes, at the latest after
//! the time limit; the callback pushes a task to the pool, which puts the outcome into the cache and
//! takes the waiting requests out in one step under the lock. A request that comes before this step
//! is among those that are taken out; one that comes after it finds the outcome.
//!
//! **Order.** Requests of one name go on in the order in which they came. One that comes while they
//! go on may overtake them; for REGISTERs of one Call-ID the CSeq decides, as on any network.
//!
//! **Bounds.** At most 256 requests wait, and a share of them for one source, of which four questions
//! are under way at a time: half of the connections that the HTTP client has for this purpose. Found
//! and missing names are cached apart, so that unknown names never displace an account. If the
//! service is unreachable, late or says that it is overloaded five times in a row, the breaker
//! opens: from then on it is asked once in ten seconds until it answers. Another answer that cannot
//! be used concerns its name alone, since somebody might find a name for which the service fails.

pub(in crate::server) mod http_credentials;
mod aged_map;
mod credential_cache;
mod credential_request;
mod credentials_config;
mod credentials_stats;
mod service_breaker;
mod source_queues;

pub use credentials_config::{CredentialsConfig, CredentialsMistake};
pub use credentials_stats::CredentialsStats;
