//! The state of a live env that nobody uses: taken, compared with the one before, and kept.

use std::sync::atomic::Ordering;

use aebuild_cache::BlobRef;

use super::live::{Provisioner, Settled, UNKNOWN};
use super::live_env::LiveEnv;
use super::store::{file_of_version, stored_file};
use crate::digest::{Digest, Digester};
use crate::record::Redactor;
use crate::resource::{ResourceId, Version};
use crate::task::deploy::StateMode;

impl Provisioner {
    /// Takes the state of an env that no step uses.
    pub(super) async fn settle_env(&self, task: usize, resource: &ResourceId) -> Settled {
        let slot = self.env_slot(task, resource);
        let mut slot = slot.lock().await;
        let Some(live) = slot.as_mut() else {
            return Settled {
                version: Version::Created(Digest::of_bytes(b"not live")),
                changed: false,
                notice: None,
            };
        };
        live.gate.idle().await;
        let unchanged = Settled {
            version: live.version,
            changed: false,
            notice: None,
        };
        let counts = live.gate.counts();
        if live.gate.broken().is_some() {
            // The step that found out has said it already.
            return self.unknown_state(live, task, None);
        }
        if counts.0 == live.counted.0 {
            return unchanged;
        }
        match self.state_now(live, counts).await {
            Ok(None) => {
                live.counted = counts;
                unchanged
            }
            Ok(Some(version)) => {
                live.counted = counts;
                live.version = version;
                Settled {
                    version,
                    changed: true,
                    notice: None,
                }
            }
            Err(why) => {
                let text = format!("the state of {resource} cannot be taken: {why}");
                self.unknown_state(live, task, Some(text))
            }
        }
    }

    fn unknown_state(&self, live: &mut LiveEnv, task: usize, notice: Option<String>) -> Settled {
        let version = self.unknown_version(task);
        live.version = version;
        Settled {
            version,
            changed: true,
            notice,
        }
    }

    /// Returns a version that is nobody's.
    pub(super) fn unknown_version(&self, task: usize) -> Version {
        let mut digester = Digester::new("unknown state");
        digester.text(&self.settings.run).number(task as u64);
        digester.number(self.unknown.fetch_add(1, Ordering::Relaxed));
        Version::State {
            tree: digester.finish(),
            size: UNKNOWN,
        }
    }

    /// Returns the version that an env is at, `None` where it is the one that it was at.
    async fn state_now(
        &self,
        live: &mut LiveEnv,
        counts: (u64, u64),
    ) -> Result<Option<Version>, String> {
        match live.mode {
            StateMode::Export => {
                let snapshot = live
                    .gate
                    .snapshot()
                    .await
                    .map_err(|error| error.to_string())?;
                // One of another size is another one: it is hashed while it is written.
                if let Some(was) = live.exported
                    && was.size == snapshot.len() as u64
                    && was == BlobRef::of(&snapshot)
                {
                    return Ok(None);
                }
                let (file, size) = self.keep_state(snapshot).await?;
                let version = Version::Exported { file, size };
                live.exported = file_of_version(&version);
                Ok(Some(version))
            }
            _ if counts.1 == live.counted.1 => Ok(None),
            StateMode::Replay => {
                let recipe = live.gate.recipe().map_err(|error| error.to_string())?;
                let (file, size) = self.keep_state(recipe.to_bytes()).await?;
                Ok(Some(Version::Recorded { file, size }))
            }
            StateMode::None => {
                let recipe = live.gate.recipe().map_err(|error| error.to_string())?;
                let mut digester = Digester::new("history");
                digester.digest(&live.version.digest());
                digester.digest(&Digest::of_bytes(&recipe.to_bytes()));
                Ok(Some(Version::Lineage(digester.finish())))
            }
        }
    }

    pub(super) fn redactor(&self) -> Redactor {
        Redactor::new(self.settings.secrets.iter().map(String::as_str))
    }

    /// Keeps what a state is brought back by, and returns its name.
    async fn keep_state(&self, bytes: Vec<u8>) -> Result<(Digest, u64), String> {
        let redactor = self.redactor();
        if !redactor.is_empty() && *redactor.bytes(&bytes) != *bytes {
            return Err("it holds the value of a variable that is passed on".to_owned());
        }
        let blob = match self.cache.clone() {
            None => BlobRef::of(&bytes),
            Some(cache) => {
                let put = move || cache.put_blob(&bytes).map_err(|error| error.to_string());
                let blob = tokio::task::spawn_blocking(put).await;
                blob.map_err(|error| format!("bug: keeping a state failed: {error}"))??
            }
        };
        let file = stored_file(blob);
        Ok((Digest::from_bytes(file.sha256), file.size))
    }
}
