//! The form in which a context names a file that is kept in the store: `aebuild:sha256:<hex>:<size>`.

use std::fmt::Write as _;

use crate::step::StoredFile;

const SCHEME: &str = "aebuild:sha256:";

/// Returns the URL of a stored file.
pub(super) fn of(file: &StoredFile) -> String {
    let mut url = SCHEME.to_owned();
    for byte in file.sha256 {
        let _ = write!(url, "{byte:02x}");
    }
    let _ = write!(url, ":{}", file.size);
    url
}

/// Returns the stored file that a URL names, if it names one.
pub(super) fn read(url: &str) -> Option<StoredFile> {
    let (hex, size) = url.strip_prefix(SCHEME)?.split_once(':')?;
    if hex.len() != 64 || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut sha256 = [0; 32];
    for (at, byte) in sha256.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).ok()?;
    }
    if !size.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(StoredFile {
        sha256,
        size: size.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_the_file_that_it_was_made_of() {
        let file = StoredFile {
            sha256: [0xa7; 32],
            size: 12,
        };
        assert_eq!(read(&of(&file)), Some(file));
        for url in [
            "",
            "file:///x",
            "aebuild:sha256:a7:1",
            &of(&file)[..70],
            &(of(&file) + "x"),
        ] {
            assert_eq!(read(url), None, "{url}");
        }
    }
}
