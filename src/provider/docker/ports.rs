//! Ports of this machine on which containers in its network serve.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::provider::served::free_port;
use crate::system::locked;

/// How often a port that is in use is looked at again.
const POLL: Duration = Duration::from_millis(50);

/// The ports that containers of a run have.
#[derive(Clone, Default)]
pub(super) struct Ports(Arc<Mutex<BTreeSet<u16>>>);

/// A port of 127.0.0.1 that no other container of the run gets until this is dropped.
pub(super) struct Taken {
    pub(super) port: u16,
    all: Ports,
}

impl Ports {
    /// Takes one port, waited for so long where somebody has it, or any that is free.
    pub(super) async fn take(&self, port: Option<u16>, limit: Duration) -> Result<Taken, String> {
        let taking = async {
            loop {
                if let Some(taken) = self.try_take(port).await? {
                    return Ok(taken);
                }
                sleep(POLL).await;
            }
        };
        timeout(limit, taking).await.unwrap_or_else(|_| {
            let port = port.map_or("every port".to_owned(), |port| format!("port {port}"));
            let limit = limit.as_secs();
            Err(format!("{port} of this machine was in use for {limit} s"))
        })
    }

    /// Takes one port, or any; `None` where somebody has it.
    async fn try_take(&self, port: Option<u16>) -> Result<Option<Taken>, String> {
        let port = match port {
            None => free_port().await.map_err(|error| error.to_string())?,
            Some(port) => {
                // Whoever answers there would be taken for the container.
                if TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
                    return Ok(None);
                }
                port
            }
        };
        let is_new = locked(&self.0).insert(port);
        let all = self.clone();
        Ok(is_new.then(|| Taken { port, all }))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        locked(&self.all.0).remove(&self.port);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_port_is_one_container_s_until_it_is_given_back() {
        let ports = Ports::default();
        let first = ports.try_take(None).await.unwrap().unwrap();
        let port = Some(first.port);
        assert!(ports.try_take(port).await.unwrap().is_none());
        drop(first);
        let second = ports.take(port, Duration::from_secs(9)).await.unwrap();
        assert_eq!(Some(second.port), port);
        let error = ports.take(port, Duration::ZERO).await.err();
        let text = format!("port {} of this machine was in use for 0 s", second.port);
        assert_eq!(error, Some(text));
    }

    #[tokio::test]
    async fn a_port_at_which_somebody_answers_is_not_free() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = Some(listener.local_addr().unwrap().port());
        let ports = Ports::default();
        assert!(ports.try_take(port).await.unwrap().is_none());
        drop(listener);
        assert!(ports.try_take(port).await.unwrap().is_some());
    }
}
