//! Envs and agents that are containers: the engine of a run is looked for when the first of them is needed.

use super::live::{ProvisionError, Provisioner};
use super::live_env::failed;
use crate::provider::docker::Docker;
use crate::provider::served::{Contained, ServedEnv};
use crate::schedule::EnvParts;
use crate::task::deploy::EnvRun;

impl Provisioner {
    pub(super) async fn start_container(
        &self,
        parts: &EnvParts,
    ) -> Result<ServedEnv, ProvisionError> {
        let spec = &parts.spec;
        let EnvRun::Docker {
            image,
            port,
            path,
            variables,
        } = &spec.run
        else {
            return Err(failed("bug: the env does not run in a container"));
        };
        let what = format!("env `{}`", spec.env_id);
        let help = format!("`command` in [envs.{}]", spec.env_id);
        let docker = self.docker_for(&what, "the env", &help).await?;
        let contained = Contained {
            spec,
            image: image.as_deref(),
            files: parts.content.as_ref().map_or(&[], |content| &content.files),
            port: *port,
            path,
            variables,
        };
        ServedEnv::contain(docker, contained).await.map_err(failed)
    }

    /// Returns the engine for what runs in a container, or says how it would be run without one.
    pub(super) async fn docker_for(
        &self,
        what: &str,
        noun: &str,
        without: &str,
    ) -> Result<&Docker, ProvisionError> {
        self.docker().await?.as_ref().map_err(|why| {
            failed(format!(
                "{what} runs in a container, but {why}; start an engine, name its socket in DOCKER_HOST, or say how {noun} \
                 is run without one, with {without} of aebuild.toml"
            ))
        })
    }

    async fn docker(&self) -> Result<&Result<Docker, String>, ProvisionError> {
        // Its lease is what tells others that the run's containers are in use.
        self.sandboxes().await?;
        let host = self.system.variable("DOCKER_HOST");
        let connect = Docker::connect(host.as_deref(), &self.settings.folder, &self.settings.run);
        Ok(self.docker.get_or_init(|| connect).await)
    }
}
