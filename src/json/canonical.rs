//! The bytes of a value for hashing.

use serde_json::Value;

/// Feeds the bytes of a value to `out`, so that equal values give equal bytes and different values different ones.
///
/// Each value starts with a byte for its type; strings, arrays and objects say their length; the members of an object
/// are sorted by key. `1` and `1.0` differ, and so do `0.0` and `-0.0`.
pub fn canonical(value: &Value, out: &mut impl FnMut(&[u8])) {
    match value {
        Value::Null => out(b"n"),
        Value::Bool(false) => out(b"f"),
        Value::Bool(true) => out(b"t"),
        Value::Number(number) => {
            if let Some(number) = number.as_u64() {
                tagged(b'u', number, out);
            } else if let Some(number) = number.as_i64() {
                tagged(b'i', number as u64, out);
            } else {
                let number = number
                    .as_f64()
                    .expect("a number that is no integer is a float");
                tagged(b'd', number.to_bits(), out);
            }
        }
        Value::String(text) => string(text, out),
        Value::Array(items) => {
            tagged(b'a', items.len() as u64, out);
            for item in items {
                canonical(item, out);
            }
        }
        Value::Object(map) => {
            tagged(b'o', map.len() as u64, out);
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(key, _)| key.as_str());
            for (key, value) in members {
                string(key, out);
                canonical(value, out);
            }
        }
    }
}

fn string(text: &str, out: &mut impl FnMut(&[u8])) {
    tagged(b's', text.len() as u64, out);
    out(text.as_bytes());
}

fn tagged(tag: u8, number: u64, out: &mut impl FnMut(&[u8])) {
    let mut bytes = [tag; 9];
    bytes[1..].copy_from_slice(&number.to_le_bytes());
    out(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::json;

    fn bytes(value: &Value) -> Vec<u8> {
        let mut all = Vec::new();
        canonical(value, &mut |part: &[u8]| all.extend_from_slice(part));
        all
    }

    #[test]
    fn values_that_differ_have_bytes_that_differ() {
        let values = [
            json!(null),
            json!(false),
            json!(true),
            json!(0),
            json!(0.0),
            json!(-0.0),
            json!(-1),
            json!(u64::MAX),
            json!(1),
            json!(1.0),
            json!(""),
            json!("1"),
            json!([]),
            json!([[]]),
            json!([[], []]),
            json!(["a", "b"]),
            json!(["ab"]),
            json!(["a", ["b"]]),
            json!({}),
            json!({"a": "b"}),
            json!({"a": {"b": null}}),
            json!({"a": null, "b": null}),
        ];
        for (ix, one) in values.iter().enumerate() {
            for other in &values[ix + 1..] {
                assert_ne!(bytes(one), bytes(other), "{one} and {other}");
            }
        }
    }

    #[test]
    fn the_order_of_members_does_not_matter() {
        let parse = |text: &str| serde_json::from_str::<Value>(text).expect("valid");
        assert_eq!(
            bytes(&parse(r#"{"b": [1], "a": 2}"#)),
            bytes(&parse(r#"{"a":2,"b":[1]}"#))
        );
    }
}
