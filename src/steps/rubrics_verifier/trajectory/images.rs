//! The images of a trajectory.

use crate::json::{Map, Value, json};

/// A screenshot of a trajectory.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::steps::rubrics_verifier) struct Frame {
    /// Its number among all of the trajectory, the first being 1.
    pub(in crate::steps::rubrics_verifier) number: usize,
    /// Its media type.
    pub(in crate::steps::rubrics_verifier) mime: String,
    /// Its bytes in base64.
    pub(in crate::steps::rubrics_verifier) base64: String,
}

/// Takes the images out of a value; in their place stands their number.
pub(super) fn take_images(value: &mut Value, frames: &mut Vec<Frame>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| take_images(item, frames)),
        Value::Object(members) => match image(members) {
            Some((mime, base64)) => {
                let number = frames.len() + 1;
                *value = json!({"type": "image", "screenshot": number});
                frames.push(Frame {
                    number,
                    mime,
                    base64,
                });
            }
            None => members
                .values_mut()
                .for_each(|member| take_images(member, frames)),
        },
        _ => {}
    }
}

/// Returns the media type and the bytes of an image, as MCP and as the APIs of models have them.
fn image(members: &Map<String, Value>) -> Option<(String, String)> {
    let kind = members.get("type")?.as_str()?;
    let text = |value: Option<&Value>| value?.as_str().map(str::to_owned);
    match kind {
        "image" if members.contains_key("data") => {
            let mime = text(members.get("mimeType")).unwrap_or_else(|| "image/png".to_owned());
            Some((mime, text(members.get("data"))?))
        }
        "image" => {
            let source = members.get("source")?;
            let mime = text(source.get("media_type")).unwrap_or_else(|| "image/png".to_owned());
            Some((mime, text(source.get("data"))?))
        }
        "image_url" => {
            let url = members.get("image_url")?.get("url")?.as_str()?;
            let (mime, base64) = url.strip_prefix("data:")?.split_once(";base64,")?;
            Some((mime.to_owned(), base64.to_owned()))
        }
        _ => None,
    }
}
