//! Images: found on this machine, built from a folder, or pulled.

use reqwest::Method;

use super::Docker;
use super::api::ApiError;
use super::tar::Tar;
use crate::digest::{Digest, Digester};
use crate::provider::http::escaped;
use crate::step::ContentFile;
use crate::step::env::LastLines;
use crate::system::disk;

impl Docker {
    /// Returns the image of a folder with a Dockerfile, which is built where there is none of the same files.
    pub(super) async fn build(
        &self,
        repository: &str,
        files: &[ContentFile],
    ) -> Result<String, (String, String)> {
        let mut digester = Digester::new("image 1");
        for file in files {
            digester.text(&file.path).digest(&file.digest);
            digester.number(u64::from(file.executable));
        }
        let tag = format!("{repository}:{}", digester.finish());
        let plain = |error: ApiError| (error.to_string(), String::new());
        let _alone = self.making.lock().await;
        if self.is_here(&tag).await.map_err(plain)? {
            return Ok(tag);
        }
        let mut tar = Tar::default();
        for file in files {
            let bytes = disk::read(&file.source).map_err(|error| {
                let why = format!("`{}` of its folder cannot be read: {error}", file.path);
                (why, String::new())
            })?;
            if Digest::of_bytes(&bytes) != file.digest {
                let why = format!(
                    "`{}` of its folder changed since the run was planned; run it again",
                    file.path
                );
                return Err((why, String::new()));
            }
            tar.add(
                &file.path,
                if file.executable { 0o755 } else { 0o644 },
                &bytes,
            );
        }
        let mut path = format!("/build?t={}&rm=1&forcerm=1", escaped(&tag));
        if !self.has_bridge {
            path.push_str("&networkmode=host");
        }
        let mut said = LastLines::default();
        let built = self
            .api
            .work(&path, tar.finish(), |text| said.push(text.as_bytes()))
            .await;
        match built {
            Ok(()) => Ok(tag),
            Err(error) => Err((
                format!("its Dockerfile cannot be built: {error}"),
                said.text(),
            )),
        }
    }

    /// Makes sure that an image is on this machine.
    pub(super) async fn provide(&self, image: &str) -> Result<(), String> {
        let _alone = self.making.lock().await;
        let here = self.is_here(image).await;
        if here.map_err(|error| error.to_string())? {
            return Ok(());
        }
        let named = with_tag(image);
        let path = format!("/images/create?fromImage={}", escaped(&named));
        let pulled = self.api.work(&path, Vec::new(), |_| ()).await;
        pulled.map_err(|error| {
            format!(
                "image `{image}` is not on this machine, and pulling `{named}` came to nothing: {error}; \
                 `docker pull` or `docker build` it, or name another with `image`"
            )
        })
    }

    async fn is_here(&self, image: &str) -> Result<bool, ApiError> {
        // The name's own slashes are part of the path.
        let path = format!("/images/{}/json", escaped(image).replace("%2F", "/"));
        match self.api.ask(Method::GET, &path, None).await {
            Ok(_) => Ok(true),
            Err(ApiError::Refused { status: 404, .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Returns a reference with its tag: without one the engine would pull them all.
fn with_tag(image: &str) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    if name.contains([':', '@']) {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_the_latest() {
        let check = |image: &str, expected: &str| assert_eq!(with_tag(image), expected);
        check("notes", "notes:latest");
        check("localhost:5000/notes", "localhost:5000/notes:latest");
        check("ghcr.io/a/notes:2", "ghcr.io/a/notes:2");
        check("notes@sha256:00", "notes@sha256:00");
    }
}
