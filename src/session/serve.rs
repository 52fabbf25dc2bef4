//! An env that is compiled in, served to whoever asks on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::SessionError;
use super::held::runtime;
use crate::gateway::{Caller, Gate, GateSettings, Gateway, Keeper, Recorder};
use crate::provider::builtin;
use crate::step::env::DEFAULT_ROLE;
use crate::system::{System, disk};
use crate::task::deploy::ClockMode;

/// Returns the names of the envs that are compiled in.
pub fn builtin_envs() -> [&'static str; 4] {
    builtin::names()
}

/// Returns the folder in which what is served by this process keeps files.
pub(super) fn temp_folder(system: &dyn System, kind: &str) -> PathBuf {
    let temp = system.variable("TMPDIR").filter(|dir| !dir.is_empty());
    let temp = PathBuf::from(temp.unwrap_or_else(|| "/tmp".to_owned()));
    temp.join(format!("aebuild-{kind}-{}", std::process::id()))
}

/// Keeps nothing: a served env has no store.
pub(super) struct Nowhere;

impl Keeper for Nowhere {
    fn keep(&self, _: &Path) -> Option<String> {
        None
    }
}

/// An env or an agent that is served.
pub struct Served {
    runtime: tokio::runtime::Runtime,
    /// Serves as long as it is there.
    _gateway: Arc<Gateway>,
    url: String,
    folder: PathBuf,
}

impl Served {
    /// Serves an env that is compiled in on a port of 127.0.0.1; 0 stands for one that is free.
    pub fn env(name: &str, port: u16, system: Arc<dyn System>) -> Result<Self, SessionError> {
        let server = builtin::start(name, name)
            .ok_or_else(|| SessionError::World(format!("no env `{name}` is compiled in")))?;
        let folder = temp_folder(&*system, "env");
        let settings = GateSettings {
            env_id: name.to_owned(),
            call_timeout: Duration::from_secs(600),
            read_only_tools: Vec::new(),
            volatile: Vec::new(),
            exports: true,
            can_export: true,
            clock: ClockMode::Real,
        };
        let recorder = Recorder::new(folder.join("calls.jsonl"), Arc::new(Nowhere), system);
        let gate = Gate::new(settings, server, recorder, Vec::new());
        let caller = Caller::new("env", DEFAULT_ROLE).passing_time(true);
        Served::by(folder, port, async |gateway| {
            gateway.serve_alone(gate, caller, port).await
        })
    }

    /// Serves what `serve` has a gateway serve on a port; it returns the port.
    pub(super) fn by(
        folder: PathBuf,
        port: u16,
        serve: impl AsyncFnOnce(&Arc<Gateway>) -> std::io::Result<u16>,
    ) -> Result<Self, SessionError> {
        let runtime = runtime()?;
        let gateway = Gateway::new();
        let served = runtime.block_on(serve(&gateway));
        let port = served.map_err(|error| {
            SessionError::World(format!(
                "port {port} of 127.0.0.1 cannot be served on: {error}"
            ))
        })?;
        Ok(Served {
            runtime,
            _gateway: gateway,
            url: format!("http://127.0.0.1:{port}"),
            folder,
        })
    }

    /// Returns the address, without a slash at its end: MCP is at `/mcp` below it, the card of an agent where A2A has it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Stops serving.
    pub fn stop(self) {
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        if disk::exists(&self.folder) {
            // What is left is a file in the folder for temporary ones.
            let _ = disk::remove_dir_all(&self.folder);
        }
    }
}
