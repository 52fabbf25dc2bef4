//! Bytes as base64 text (RFC 4648, with padding) and back; of several texts for the same bytes only one is taken.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the text for bytes.
pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut bits = 0;
        for ix in 0..3 {
            bits = bits << 8 | u32::from(group.get(ix).copied().unwrap_or(0));
        }
        for ix in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * ix)) as usize & 63];
            text.push(if ix <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

/// Returns the bytes of a text; `None` where it is not what [`encode`] gives.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.as_bytes();
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let digits = match text {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] => digits,
        digits => digits,
    };
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 2);
    for group in digits.chunks(4) {
        let mut bits = 0;
        for ix in 0..4 {
            let value = match group.get(ix) {
                Some(digit) => value_of(*digit)?,
                None => 0,
            };
            bits = bits << 6 | value;
        }
        let n_bytes = group.len().checked_sub(1).filter(|n| *n > 0)?;
        let all = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        if all[n_bytes..].iter().any(|rest| *rest != 0) {
            return None;
        }
        bytes.extend_from_slice(&all[..n_bytes]);
    }
    Some(bytes)
}

fn value_of(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_only_one_text_stands_for_them() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(decode(&encode(&all)), Some(all));
        for text in ["Zg", "Zh==", "Zm9=", "Z===", "====", "Zm 9", "Zg==Zg=="] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
