//! Containers that serve: their image is provided or built, they are started, and somebody waits until they are ready.

use std::time::Duration;

use reqwest::Method;

use super::{Container, Docker, Role};
use crate::json::Value;
use crate::step::ContentFile;

/// What is to serve in a container.
pub(in crate::provider) struct Serve<'a> {
    /// What it is.
    pub(in crate::provider) role: Role<'a>,
    /// Its image; `None` where one is built from its files.
    pub(in crate::provider) image: Option<&'a str>,
    /// The files of its folder.
    pub(in crate::provider) files: &'a [ContentFile],
    /// Where it serves.
    pub(in crate::provider) network: Network,
    /// Returns its variables, of which the last of a name counts; it is told on which address and port it is to serve.
    pub(in crate::provider) variables: &'a Variables<'a>,
    /// How long it may take to get ready.
    pub(in crate::provider) limit: Duration,
}

/// From the address and the port on which a container is to serve to its variables.
type Variables<'a> = dyn Fn(&str, u16) -> Vec<(String, String)> + Sync + 'a;

/// The network of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::provider) enum Network {
    /// One of its own, as far as the engine has such: it serves on this port, and is reached on another.
    Own(u16),
    /// That of this machine, in which it reaches what serves on 127.0.0.1. It serves on this port, else on one that is
    /// free.
    Machine(Option<u16>),
}

/// Why nothing serves.
pub(in crate::provider) enum NotServing {
    /// It could not be started, or it ended.
    NotStarted {
        /// Why not.
        why: String,
        /// What it wrote last.
        tail: String,
    },
    /// It did not get ready in time.
    NotReady {
        /// What it wrote last.
        tail: String,
    },
}

impl Docker {
    /// Starts a container and waits until `connect`, which is told its address, has connected to it or says why it never
    /// will.
    pub(in crate::provider) async fn serve<T, F>(
        &self,
        serve: Serve<'_>,
        connect: impl FnOnce(String) -> F,
    ) -> Result<(Container, T), NotServing>
    where
        F: Future<Output = Result<T, String>>,
    {
        let not_started = |why: String, tail: String| NotServing::NotStarted { why, tail };
        let plain = |why: String| not_started(why, String::new());
        if let Network::Machine(_) = serve.network {
            let info = self.api.ask(Method::GET, "/info", None).await;
            let info = info.map_err(|error| plain(error.to_string()))?;
            is_of_this_machine(&info).map_err(plain)?;
        }
        let image = match serve.image {
            Some(image) => {
                self.provide(image).await.map_err(plain)?;
                image.to_owned()
            }
            None => {
                let built = self.build(serve.role.repository(), serve.files).await;
                built.map_err(|(why, tail)| not_started(why, tail))?
            }
        };
        let container = self.start(&serve, &image).await.map_err(plain)?;
        let connecting = connect(format!("http://127.0.0.1:{}", container.port));
        let connected = tokio::select! {
            biased;
            how = container.how_it_ended() => Ok(Err(how)),
            connected = tokio::time::timeout(serve.limit, connecting) => connected,
        };
        let error = match connected {
            Ok(Ok(connected)) => return Ok((container, connected)),
            Ok(Err(why)) => {
                if container.ended.borrow().is_none() {
                    container.look().await;
                }
                not_started(why, container.tail())
            }
            Err(_) => {
                container.look().await;
                let tail = container.tail();
                NotServing::NotReady { tail }
            }
        };
        container.stop().await;
        Err(error)
    }
}

/// Returns why the network that an engine takes for that of its machine is another, where it is.
fn is_of_this_machine(info: &Value) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let options = info["SecurityOptions"].as_array();
    let mut options = options.into_iter().flatten().map(text);
    let what = if text(&info["OperatingSystem"]) == "Docker Desktop" {
        "in a virtual machine"
    } else if options.any(|option| option.split(',').any(|one| one == "name=rootless")) {
        "rootless"
    } else {
        return Ok(());
    };
    Err(format!(
        "the Docker engine is {what}, so its containers are in another network than this machine: they neither reach the \
         envs and agents that are served on 127.0.0.1 nor are they reached there"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    #[test]
    fn an_engine_says_whether_its_network_is_that_of_this_machine() {
        let check = |info: Value, expected: Option<&str>| {
            let why = is_of_this_machine(&info).err();
            let begins = |what| format!("the Docker engine is {what}, so its containers");
            let is_right = match (&why, expected) {
                (Some(why), Some(what)) => why.starts_with(&begins(what)),
                (why, _) => why.is_none() && expected.is_none(),
            };
            assert!(is_right, "{info}: {why:?}");
        };
        let debian = "Debian GNU/Linux 12 (bookworm)";
        check(json!({}), None);
        check(
            json!({"OperatingSystem": debian, "SecurityOptions": ["name=seccomp,profile=default"]}),
            None,
        );
        check(
            json!({"OperatingSystem": debian, "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"]}),
            Some("rootless"),
        );
        check(
            json!({"OperatingSystem": "Docker Desktop", "SecurityOptions": null}),
            Some("in a virtual machine"),
        );
    }
}
