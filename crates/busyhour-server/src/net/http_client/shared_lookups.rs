//! Looking up the names of hosts, so that a name that nobody answers for holds up no other.

use hyper_util::client::legacy::connect::dns::Name;
use std::{
    collections::HashMap,
    future::Future,
    io,
    net::{SocketAddr, ToSocketAddrs},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    vec,
};
use tokio::{sync::watch, task::spawn_blocking};
use tower_service::Service;

/// Asks the system for the addresses of names. The system cannot be told to give up, so each name has
/// at most one look-up under way, and all who want it wait for that one.
#[derive(Clone, Default)]
pub(super) struct SharedLookups(Arc<Mutex<HashMap<String, HostFound>>>);

type HostFound = watch::Receiver<Option<Result<Vec<SocketAddr>, String>>>;

impl SharedLookups {
    fn find(&self, host: &str) -> HostFound {
        let mut under_way = self.lock();
        if let Some(found) = under_way.get(host) {
            return found.clone();
        }
        let (tell, found) = watch::channel(None);
        under_way.insert(host.to_owned(), found.clone());
        let (lookups, host) = (self.clone(), host.to_owned());
        // It goes on without its handle, also if nobody waits any more.
        drop(spawn_blocking(move || {
            let addresses = (host.as_str(), 0).to_socket_addrs();
            let addresses = addresses.map(Iterator::collect);
            lookups.lock().remove(&host);
            tell.send_replace(Some(addresses.map_err(|error| error.to_string())));
        }));
        found
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, HostFound>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service<Name> for SharedLookups {
    type Response = vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, io::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let mut found = self.find(name.as_str());
        Box::pin(async move {
            let told = found.wait_for(Option::is_some).await;
            let told = told.map_err(|_| io::Error::other("the look-up was stopped"))?;
            match told.as_ref() {
                Some(Ok(addresses)) => Ok(addresses.clone().into_iter()),
                Some(Err(said)) => Err(io::Error::other(said.clone())),
                None => Err(io::Error::other("the look-up was stopped")),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However often it is asked for, a name takes one thread.
    #[test]
    fn all_who_want_a_name_wait_for_one_look_up() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(async {
            let lookups = SharedLookups::default();
            let (tell, found) = watch::channel(None);
            lookups.lock().insert("slow.invalid".to_owned(), found);
            let mut waiting: Vec<_> = (0..100).map(|_| lookups.find("slow.invalid")).collect();
            let other = "localhost".parse().unwrap();
            let quick: Vec<_> = lookups.clone().call(other).await.unwrap().collect();
            assert!(quick.iter().all(|address| address.ip().is_loopback()));
            assert!(!quick.is_empty());
            let address = SocketAddr::from(([192, 0, 2, 1], 0));
            tell.send_replace(Some(Ok(vec![address])));
            for found in &mut waiting {
                let told = found.wait_for(Option::is_some).await.unwrap();
                assert_eq!(*told, Some(Ok(vec![address])));
            }
            let again = lookups.clone().call("localhost".parse().unwrap());
            assert!(
                again.await.is_ok(),
                "and it is looked up anew the next time"
            );
        });
    }
}
