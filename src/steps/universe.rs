//! The data of an environment, as files of an artifact and as parts of the data plane.
//!
//! An env takes and gives its state as a list of parts: `{"kind": "data", "data": {..}}`, `{"kind": "file", "file":
//! {"bytes": "<base64>", "name": .., "mimeType": ..}}` or text. An artifact holds one file for each environment:
//!
//! | file | parts |
//! |---|---|
//! | `.json` with an object | one data part |
//! | `.parts.json` with a list | the list itself |
//! | any other | one file part with its bytes |
//!
//! [`parts_of`] goes from left to right and [`file_of`] back. What one file cannot say, such as several parts, is kept
//! as `.parts.json`, so that nothing is lost on the way.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;

use crate::diagnostic::did_you_mean;
use crate::json::{self, Map, Value};
use crate::step::env::{EnvError, LiveEnv};
use crate::step::{Content, ContentFile};
use crate::task::ArtifactKind;

/// What the name of a file ends with that is a list of parts.
const PARTS: &str = ".parts.json";

/// Returns the JSON text of the list of parts that a file of an environment is.
pub(super) fn parts_of(file_name: &str, bytes: &[u8]) -> Vec<u8> {
    if file_name.ends_with(PARTS) && is_json(bytes, b'[') {
        return bytes.to_vec();
    }
    if file_name.ends_with(".json") && is_json(bytes, b'{') {
        return [br#"[{"kind":"data","data":"#, bytes, b"}]"].concat();
    }
    let name = Value::from(file_name.rsplit('/').next().unwrap_or(file_name));
    let mime = Value::from(mime_of(file_name));
    let room = bytes.len() / 3 * 4 + 4;
    let mut text = String::with_capacity(room + file_name.len() + 120);
    text.push_str(r#"[{"kind":"file","file":{"bytes":""#);
    STANDARD.encode_string(bytes, &mut text);
    text.push_str(&format!(r#"","mimeType":{mime},"name":{name}}}}}]"#));
    text.into_bytes()
}

/// Returns the file that a list of parts is: the end of its name, and its bytes.
pub(super) fn file_of(parts: &[u8]) -> Result<(String, Vec<u8>), String> {
    let list: Vec<Map<String, Value>> = json::from_slice(parts)
        .map_err(|error| format!("the state is no list of parts: {error}"))?;
    let whole = || Ok((PARTS.to_owned(), parts.to_vec()));
    let [part] = &list[..] else {
        return whole();
    };
    let kind = part.get("kind").and_then(Value::as_str).unwrap_or("");
    let plain = part.keys().all(|key| key == "kind" || key == kind);
    match (kind, part.get(kind)) {
        ("data", Some(data @ Value::Object(_))) if plain => {
            Ok((".json".to_owned(), data.to_string().into_bytes()))
        }
        ("file", Some(Value::Object(file))) => {
            let Some(text) = file.get("bytes").and_then(Value::as_str) else {
                let at = file.get("uri").and_then(Value::as_str).unwrap_or("nowhere");
                return Err(format!("a file of the state has no bytes; it is at `{at}`"));
            };
            let name = file.get("name").and_then(Value::as_str).unwrap_or("");
            let suffix = suffix_of(name);
            let bytes = STANDARD
                .decode(text)
                .map_err(|error| format!("a file of the state is no base64: {error}"))?;
            // A file that would come back as something else stays a part.
            if !plain || suffix == ".json" && is_json(&bytes, b'{') || name.ends_with(PARTS) {
                return whole();
            }
            Ok((suffix, bytes))
        }
        _ => whole(),
    }
}

/// Returns whether bytes are JSON that starts like this.
fn is_json(bytes: &[u8], first: u8) -> bool {
    let start = bytes.iter().find(|byte| !byte.is_ascii_whitespace());
    start == Some(&first)
        && std::str::from_utf8(bytes).is_ok()
        && json::from_slice::<IgnoredAny>(bytes).is_ok()
}

/// Returns what a name ends with, the dot included; `.zip` where that is nothing to name a file by.
fn suffix_of(name: &str) -> String {
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    let stem = name
        .strip_suffix(".gz")
        .filter(|stem| stem.ends_with(".tar"));
    let at = stem.map_or_else(|| name.rfind('.'), |stem| stem.rfind('.'));
    let suffix = at.map_or("", |at| &name[at..]);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.';
    match (2..=16).contains(&suffix.len()) && suffix.chars().all(is_plain) {
        true => suffix.to_owned(),
        false => ".zip".to_owned(),
    }
}

fn mime_of(name: &str) -> &'static str {
    match suffix_of(name).rsplit('.').next().unwrap_or("") {
        "json" => "application/json",
        "zip" if name.ends_with(".zip") => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "tar" => "application/x-tar",
        "db" | "sqlite" | "sqlite3" => "application/vnd.sqlite3",
        "csv" => "text/csv",
        "txt" => "text/plain",
        _ => "application/octet-stream",
    }
}

/// Puts a state in place of what an env has; parts are added only where there are any.
pub(super) async fn load(env: &dyn LiveEnv, parts: Vec<u8>) -> Result<(), EnvError> {
    let mut signs = parts.iter().filter(|byte| !byte.is_ascii_whitespace());
    let is_empty = signs.next() == Some(&b'[') && signs.next() == Some(&b']');
    if is_empty {
        env.reset().await
    } else {
        env.load(parts).await
    }
}

/// Returns the name of an env among environments: that of its card, else its id.
pub(super) fn name_of(env: &dyn LiveEnv) -> String {
    let card = env.card();
    let name = card.as_ref().and_then(|card| card.get("name")?.as_str());
    name.filter(|name| !name.is_empty())
        .unwrap_or(env.env_id())
        .to_owned()
}

/// Returns the file of an artifact that holds the data of an env that goes by any of these names.
pub(super) fn file_for<'c>(
    content: &'c Content,
    names: &[&str],
) -> Result<&'c ContentFile, String> {
    let artifact = &content.name;
    if content.kind == ArtifactKind::Environment {
        return match &content.files[..] {
            [file] => Ok(file),
            files => Err(format!(
                "artifact `{artifact}` has {} files, and does not say which one is the data; leave one",
                files.len()
            )),
        };
    }
    let folder = |file: &'c ContentFile| file.path.split_once('/').map(|(folder, _)| folder);
    let mut folders: Vec<&str> = content.files.iter().filter_map(folder).collect();
    folders.dedup();
    let named = names.iter().find(|name| folders.contains(*name)).copied();
    let wanted = match (named, &folders[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, _) => {
            let name = names.first().copied().unwrap_or("");
            let list: Vec<String> = folders.iter().map(|name| format!("`{name}`")).collect();
            let has = || match list.is_empty() {
                true => "it has no folder of one".to_owned(),
                false => format!("it has {}", list.join(", ")),
            };
            let help = did_you_mean(name, folders.iter().copied()).unwrap_or_else(has);
            return Err(format!(
                "artifact `{artifact}` has no environment `{name}`; {help}"
            ));
        }
    };
    let mut files = content
        .files
        .iter()
        .filter(|file| folder(file) == Some(wanted));
    match (files.next(), files.count()) {
        (Some(file), 0) => Ok(file),
        (_, more) => Err(format!(
            "environment `{wanted}` of artifact `{artifact}` has {} files, but one holds its data",
            more + 1
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;
    use crate::json::json;
    use crate::steps::testing::{FakeEnv, block_on};
    use expect_test::expect;
    use proptest::prelude::*;

    fn parts(name: &str, text: &str) -> String {
        String::from_utf8(parts_of(name, text.as_bytes())).unwrap()
    }

    fn file(parts: Value) -> String {
        match file_of(parts.to_string().as_bytes()) {
            Ok((suffix, bytes)) => format!("{suffix} {}", String::from_utf8_lossy(&bytes)),
            Err(why) => why,
        }
    }

    #[test]
    fn a_file_becomes_parts_by_its_name_and_content() {
        let cases = [
            ("mail.json", "{\"inbox\": []}\n"),
            ("mail.json", "[1]"),
            ("mail.json", "{\"inbox\": "),
            ("mail.parts.json", "[{\"kind\":\"text\",\"text\":\"hi\"}]"),
            ("a/mail.sqlite", "SQLite"),
            ("mail", ""),
        ];
        let text: String = cases.map(|(name, text)| parts(name, text) + "\n").concat();
        expect![[r#"
            [{"kind":"data","data":{"inbox": []}
            }]
            [{"kind":"file","file":{"bytes":"WzFd","mimeType":"application/json","name":"mail.json"}}]
            [{"kind":"file","file":{"bytes":"eyJpbmJveCI6IA==","mimeType":"application/json","name":"mail.json"}}]
            [{"kind":"text","text":"hi"}]
            [{"kind":"file","file":{"bytes":"U1FMaXRl","mimeType":"application/vnd.sqlite3","name":"mail.sqlite"}}]
            [{"kind":"file","file":{"bytes":"","mimeType":"application/octet-stream","name":"mail"}}]
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn parts_become_the_file_that_says_the_same() {
        let named = |name: &str, bytes: &str| json!([{"kind": "file", "file": {"bytes": STANDARD.encode(bytes), "name": name}}]);
        let cases = [
            json!([{"kind": "data", "data": {"b": 1, "a": [2]}}]),
            json!([{"kind": "data", "data": {"b": 1}, "metadata": {"from": "x"}}]),
            json!([{"kind": "text", "text": "hi"}]),
            json!([]),
            named("dump.tar.gz", "zip"),
            named("dump", "zip"),
            named("../.\u{1f4be}", "zip"),
            named("state.json", "{\"a\": 1}"),
            named("state.json", "[1]"),
            json!([{"kind": "file", "file": {"bytes": "?"}}]),
            json!([{"kind": "file", "file": {"uri": "s3://bucket/key"}}]),
            json!({"parts": []}),
            json!([1]),
        ];
        let text: String = cases.map(|parts| file(parts) + "\n").concat();
        expect![[r#"
            .json {"a":[2],"b":1}
            .parts.json [{"data":{"b":1},"kind":"data","metadata":{"from":"x"}}]
            .parts.json [{"kind":"text","text":"hi"}]
            .parts.json []
            .tar.gz zip
            .zip zip
            .zip zip
            .parts.json [{"file":{"bytes":"eyJhIjogMX0=","name":"state.json"},"kind":"file"}]
            .json [1]
            a file of the state is no base64: Invalid symbol 63, offset 0.
            a file of the state has no bytes; it is at `s3://bucket/key`
            the state is no list of parts: invalid type: map, expected a sequence at line 1 column 0
            the state is no list of parts: invalid type: integer `1`, expected a map at line 1 column 2
        "#]]
        .assert_eq(&text);
    }

    #[test]
    fn an_env_without_parts_is_emptied() {
        let env = FakeEnv::new("mail");
        for parts in ["[ ]\n", r#"[{"kind":"text","text":""}]"#] {
            block_on(load(&env, parts.into())).unwrap();
        }
        expect![[r#"
            reset
            load [{"kind":"text","text":""}]"#]]
        .assert_eq(&env.said());
    }

    fn content(kind: ArtifactKind, paths: &[&str]) -> Content {
        let file = |path: &&str| ContentFile {
            path: (*path).to_owned(),
            source: path.into(),
            executable: false,
            digest: Digest::of_bytes(b""),
            size: 0,
        };
        Content {
            name: "start".to_owned(),
            id: "@local/t/start".to_owned(),
            kind,
            files: paths.iter().map(file).collect(),
        }
    }

    #[test]
    fn an_env_finds_its_file_by_name() {
        let universe = ArtifactKind::EnvironmentUniverse;
        let cases: [(ArtifactKind, &[&str], &[&str]); 7] = [
            (ArtifactKind::Environment, &["data.json"], &["mail"]),
            (ArtifactKind::Environment, &["a.json", "b.json"], &["mail"]),
            (universe, &["cal/a.json", "mail/b.json"], &["mail"]),
            (universe, &["cal/a.json", "mail/b.json"], &["server", "cal"]),
            (universe, &["cal/a.json"], &["mail"]),
            (universe, &["cal/a.json", "mail/b.json"], &["maill"]),
            (universe, &["cal/a.json", "cal/b.json"], &["cal"]),
        ];
        let text: String = cases
            .map(
                |(kind, paths, names)| match file_for(&content(kind, paths), names) {
                    Ok(file) => format!("{}\n", file.path),
                    Err(why) => format!("{why}\n"),
                },
            )
            .concat();
        expect![[r#"
            data.json
            artifact `start` has 2 files, and does not say which one is the data; leave one
            mail/b.json
            cal/a.json
            cal/a.json
            artifact `start` has no environment `maill`; did you mean `mail`?
            environment `cal` of artifact `start` has 2 files, but one holds its data
        "#]]
        .assert_eq(&text);
    }

    /// JSON values of every kind.
    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,6}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(".{0,3}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn part() -> impl Strategy<Value = Value> {
        let data = prop::collection::btree_map(".{0,3}", values(), 0..4);
        let names = "[a-z]{0,4}(\\.json|\\.parts\\.json|\\.zip|\\.tar\\.gz|\\..{0,3})?";
        let bytes = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            values().prop_map(|value| value.to_string().into_bytes()),
        ];
        prop_oneof![
            data.prop_map(|data| json!({"kind": "data", "data": data})),
            ".{0,6}".prop_map(|text| json!({"kind": "text", "text": text})),
            (names, bytes).prop_map(|(name, bytes)| {
                json!({"kind": "file", "file": {"bytes": STANDARD.encode(bytes), "name": name}})
            }),
        ]
    }

    /// What a list of parts means: the names and types of files are hints.
    fn meaning(parts: &[u8]) -> Value {
        let mut parts: Value = json::from_slice(parts).unwrap();
        for part in parts.as_array_mut().unwrap() {
            if let Some(file) = part.get_mut("file").and_then(Value::as_object_mut) {
                file.retain(|key, _| key == "bytes");
            }
        }
        parts
    }

    proptest! {
        #[test]
        fn a_file_comes_back_as_it_went(suffix in "(\\.json|\\.zip|\\.sqlite|\\.tar\\.gz)", bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let name = format!("mail{suffix}");
            if is_json(&bytes, b'{') {
                return Ok(());
            }
            prop_assert_eq!(file_of(&parts_of(&name, &bytes)), Ok((suffix, bytes)));
        }

        #[test]
        fn an_object_comes_back_as_the_same_object(data in prop::collection::btree_map(".{0,3}", values(), 0..4)) {
            let data = json!(data);
            let pretty = json::to_string_pretty(&data).unwrap();
            let (suffix, bytes) = file_of(&parts_of("mail.json", pretty.as_bytes())).unwrap();
            prop_assert_eq!(suffix, ".json");
            prop_assert_eq!(json::from_slice::<Value>(&bytes).unwrap(), data);
        }

        #[test]
        fn parts_come_back_as_the_same_state(list in prop::collection::vec(part(), 0..3)) {
            let parts = Value::from(list).to_string();
            let (suffix, bytes) = file_of(parts.as_bytes()).unwrap();
            let back = parts_of(&format!("mail{suffix}"), &bytes);
            prop_assert_eq!(meaning(&back), meaning(parts.as_bytes()));
        }
    }
}
