//! Draws a mutation and makes it.

use std::fs::Permissions;
use std::path::{Path, PathBuf};

use aebuild::json::{Map, Value, json};

/// Chance that is the same for the same task and number.
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(task: &str, n: u64) -> Self {
        let mut seed = 0xcbf2_9ce4_8422_2325_u64;
        for byte in task.bytes().chain(n.to_le_bytes()) {
            seed = (seed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut dice = Dice(seed);
        dice.roll(2);
        dice
    }

    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % sides.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, among: &'a [T]) -> Option<&'a T> {
        let at = self.roll(among.len());
        among.get(at)
    }
}

/// What becomes of files: their bytes, or none where one is removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mutation {
    /// What it does, in words.
    pub(super) said: String,
    /// The files by their paths below the task folder.
    files: Vec<(PathBuf, Option<Vec<u8>>)>,
}

/// What undoes a mutation: the files as they were, and what they may be.
pub(super) struct Undo(Vec<(PathBuf, Option<Was>)>);

/// The bytes of a file, and what it may be.
type Was = (Vec<u8>, Permissions);

impl Undo {
    pub(super) fn undo(self) {
        for (path, was) in self.0 {
            match was {
                Some((bytes, permissions)) => {
                    std::fs::write(&path, bytes).expect("the file is written");
                    std::fs::set_permissions(&path, permissions).expect("they are set");
                }
                None => std::fs::remove_file(&path).expect("the file is there"),
            }
        }
    }
}

impl Mutation {
    /// Draws a mutation of a task file, or of another file of its folder.
    pub(super) fn draw(dice: &mut Dice, folder: &Path, task: &Path) -> Option<Self> {
        let kind = dice.roll(10);
        let (path, (said, bytes)) = match kind {
            0..=5 => (task.to_owned(), Self::of_task(dice, task)?),
            6 => (task.to_owned(), Self::of_text(dice, task)?),
            _ => {
                let all = super::all_files(folder);
                let is_table = |path: &&PathBuf| path.extension().is_some_and(|end| end == "toml");
                let is_other = |path: &&PathBuf| {
                    path.as_path() != task
                        && !path.ends_with("README.md")
                        && path.parent().and_then(Path::file_name) != Some("tasks".as_ref())
                };
                let tables: Vec<&PathBuf> = all.iter().filter(is_table).collect();
                let others: Vec<&PathBuf> = all.iter().filter(is_other).collect();
                match kind {
                    7 => {
                        let path = (*dice.pick(&tables)?).clone();
                        let done = Self::of_table(dice, &path)?;
                        (path, done)
                    }
                    _ => {
                        let path = (*dice.pick(&others)?).clone();
                        return Self::of_file(dice, folder, &path);
                    }
                }
            }
        };
        let below = path.strip_prefix(folder).ok()?.to_owned();
        let files = vec![(below, Some(bytes))];
        Some(Mutation { said, files })
    }

    /// Returns the files that it changes.
    pub(super) fn paths(&self, folder: &Path) -> impl Iterator<Item = PathBuf> {
        self.files.iter().map(|(below, _)| folder.join(below))
    }

    pub(super) fn apply(&self, folder: &Path) -> Undo {
        let changed = self.files.iter().map(|(below, bytes)| {
            let path = folder.join(below);
            let was = std::fs::read(&path).ok().map(|was| {
                let found = std::fs::metadata(&path).expect("the file is there");
                (was, found.permissions())
            });
            match bytes {
                Some(bytes) => std::fs::write(&path, bytes).expect("the file is written"),
                None => std::fs::remove_file(&path).expect("the file is there"),
            }
            (path, was)
        });
        Undo(changed.collect())
    }

    /// Changes a file that is not the task: what is in it, or what it is called.
    fn of_file(dice: &mut Dice, folder: &Path, path: &Path) -> Option<Self> {
        let below = path.strip_prefix(folder).ok()?.to_owned();
        let shown = below.to_string_lossy().into_owned();
        let bytes = std::fs::read(path).ok()?;
        let one = |said: String, bytes: Option<Vec<u8>>| {
            let files = vec![(below.clone(), bytes)];
            Some(Mutation { said, files })
        };
        let end = path.extension().unwrap_or_default().to_string_lossy();
        match dice.roll(10) {
            0 => one(format!("remove the file {shown}"), None),
            1 => one(format!("empty the file {shown}"), Some(Vec::new())),
            2 => {
                let name = path.file_name()?.to_string_lossy().into_owned();
                let near = near_miss(dice, &name);
                let to = below.with_file_name(&near);
                if folder.join(&to).exists() {
                    return None;
                }
                let files = vec![(below, None), (to, Some(bytes))];
                let said = format!("rename the file {shown} to {near}");
                Some(Mutation { said, files })
            }
            3 => {
                let noise = vec![0x00, 0xff, 0xfe, 0x80, b'{', 0xc3, b'\n', 0x1b, 0x00];
                one(
                    format!("fill the file {shown} with binary bytes"),
                    Some(noise),
                )
            }
            4 => {
                let others = ["[]", "{}", "1", "\"x\"", "null", "x\n", "[1, \"a\", {}]"];
                let other = dice.pick(&others)?;
                let said = format!("write {} into the file {shown}", other.trim());
                one(said, Some(other.as_bytes().to_vec()))
            }
            5 | 6 => {
                // Half a command of a shell is another command.
                let ends: Vec<usize> = match end == "sh" {
                    true => (0..bytes.len()).filter(|at| bytes[*at] == b'\n').collect(),
                    false => (0..bytes.len()).collect(),
                };
                let at = *dice.pick(&ends)?;
                let said = format!("cut the file {shown} after byte {at}");
                one(said, Some(bytes[..at].to_vec()))
            }
            _ if end == "json" => {
                let mut tree: Value = serde_json::from_slice(&bytes).ok()?;
                let said = mutate(dice, &mut tree)?;
                let said = format!("in {shown}: {said}");
                one(said, Some(tree.to_string().into_bytes()))
            }
            _ => {
                let text = String::from_utf8(bytes).ok()?;
                let mut lines: Vec<&str> = text.lines().collect();
                let at = dice.roll(lines.len());
                let gone = (at < lines.len()).then(|| lines.remove(at))?;
                let said = format!("drop line {} of {shown}: {gone}", at + 1);
                one(said, Some((lines.join("\n") + "\n").into_bytes()))
            }
        }
    }

    fn of_task(dice: &mut Dice, path: &Path) -> Option<(String, Vec<u8>)> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut tree: Value = serde_json::from_str(&text).ok()?;
        let said = mutate(dice, &mut tree)?;
        Some((said, tree.to_string().into_bytes()))
    }

    /// Damages a text: a byte is lost, or all behind one.
    fn of_text(dice: &mut Dice, path: &Path) -> Option<(String, Vec<u8>)> {
        let mut bytes = std::fs::read(path).ok()?;
        // Within a command it would make another command.
        let text = String::from_utf8(bytes.clone()).ok()?;
        let at = dice.roll(bytes.len());
        let line = text.get(..at)?.lines().count().saturating_sub(1);
        let written = text.lines().nth(line).unwrap_or_default();
        let said = match dice.roll(4) {
            0 => {
                bytes.truncate(at);
                format!("cut the file after byte {at}")
            }
            _ if is_command(written) => return None,
            _ => {
                let byte = bytes.remove(at);
                format!("drop byte {at}, `{}`", byte as char)
            }
        };
        Some((said, bytes))
    }

    /// Changes a line of a TOML file.
    fn of_table(dice: &mut Dice, path: &Path) -> Option<(String, Vec<u8>)> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = dice.roll(lines.len());
        let line = lines.get(at)?.clone();
        if is_command(&line) || line.trim().is_empty() || line.starts_with('#') {
            return None;
        }
        let name = path.file_name()?.to_string_lossy().into_owned();
        let (key, value) = line.split_once('=').unwrap_or((&line, ""));
        let said = match dice.roll(6) {
            0 => {
                lines.remove(at);
                format!("drop line {} of {name}: {line}", at + 1)
            }
            1 if !value.is_empty() => {
                let near = near_miss(dice, key.trim());
                lines[at] = format!("{near} ={value}");
                format!(
                    "write {near} for {} in line {} of {name}",
                    key.trim(),
                    at + 1
                )
            }
            2 | 3 if value.trim().starts_with('"') => {
                let inner = value.trim().trim_matches('"').to_owned();
                let near = near_miss(dice, &inner);
                lines[at] = format!("{key}= \"{near}\"");
                format!("write {near} for {inner} in line {} of {name}", at + 1)
            }
            4 if !value.is_empty() => {
                let other = ["1", "\"\"", "[]", "true", "-5", "{ a = 1 }", "99999999999"];
                let other = dice.pick(&other)?;
                lines[at] = format!("{key}= {other}");
                format!("write {other} for{value} in line {} of {name}", at + 1)
            }
            _ => {
                let cut = dice.roll(line.chars().count());
                lines[at] = line.chars().take(cut).collect();
                format!("cut line {} of {name} after {cut} characters", at + 1)
            }
        };
        Some((said, (lines.join("\n") + "\n").into_bytes()))
    }
}

/// Returns whether a line holds a command of a shell, which is never changed: what it becomes could do anything.
fn is_command(line: &str) -> bool {
    ["command", "bash", "script", "\"code\"", "sh ", "argv"]
        .iter()
        .any(|word| line.contains(word))
}

/// Keys whose values are commands or programs.
const COMMANDS: [&str; 7] = [
    "command",
    "commands",
    "code",
    "script",
    "argv",
    "setup",
    "arguments",
];

/// Changes a tree and says how.
fn mutate(dice: &mut Dice, tree: &mut Value) -> Option<String> {
    if dice.roll(4) == 0 {
        return mutate_list(dice, tree.as_array_mut()?);
    }
    let mut places = Vec::new();
    list(tree, "", &mut places);
    let at = dice.pick(&places)?.clone();
    let (above, key) = at.rsplit_once('/')?;
    let keys: Vec<String> = match tree.pointer(above)? {
        Value::Object(members) => members.keys().cloned().collect(),
        _ => Vec::new(),
    };
    match (dice.roll(6), tree.pointer_mut(above)?) {
        (0, Value::Object(members)) => {
            members.remove(key)?;
            Some(format!("drop {at}"))
        }
        (1, Value::Object(members)) => {
            let near = near_miss(dice, key);
            let renamed: Map<String, Value> = std::mem::take(members)
                .into_iter()
                .map(|(name, value)| (if name == key { near.clone() } else { name }, value))
                .collect();
            *members = renamed;
            Some(format!("rename {at} to {near}"))
        }
        (2, Value::Object(members)) => {
            let other = dice.pick(&keys)?.clone();
            let value = members.get(&other)?.clone();
            if other == key || is_of_command(&at) || COMMANDS.contains(&other.as_str()) {
                return None;
            }
            members.insert(key.to_owned(), value);
            Some(format!("write at {at} what {above}/{other} is"))
        }
        (0, Value::Array(items)) => {
            items.remove(key.parse().ok()?);
            Some(format!("drop {at}"))
        }
        _ => {
            let value = tree.pointer_mut(&at)?;
            let other = replacement(dice, value)?;
            if is_of_command(&at) && other.is_string() {
                return None;
            }
            let said = format!("write {other} for {value} at {at}");
            *value = other;
            Some(said)
        }
    }
}

fn is_of_command(at: &str) -> bool {
    at.split('/').any(|part| COMMANDS.contains(&part))
}

/// Lists the pointers of everything below a value.
fn list(value: &Value, at: &str, places: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                places.push(at.clone());
                list(value, &at, places);
            }
        }
        Value::Array(items) => {
            for (ix, value) in items.iter().enumerate() {
                let at = format!("{at}/{ix}");
                places.push(at.clone());
                list(value, &at, places);
            }
        }
        _ => {}
    }
}

/// Returns another value in the place of one.
fn replacement(dice: &mut Dice, value: &Value) -> Option<Value> {
    if let (Value::String(text), 0..=4) = (value, dice.roll(8)) {
        return Some(match dice.roll(8) {
            0 => json!(""),
            1 => json!(text.replacen(['$', '('], "(", 1) + "("),
            2 => json!(format!("{text}[")),
            3 => json!(text.to_uppercase()),
            _ => json!(near_miss(dice, text)),
        });
    }
    let others = [
        json!(null),
        json!(true),
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1e12),
        json!(""),
        json!("x"),
        json!([]),
        json!(["x"]),
        json!({}),
        json!({"a": 1}),
    ];
    let other = dice.pick(&others)?.clone();
    (other != *value).then_some(other)
}

/// Returns a name that is nearly this one.
fn near_miss(dice: &mut Dice, name: &str) -> String {
    let mut chars: Vec<char> = name.chars().collect();
    if chars.len() < 2 {
        return format!("{name}x");
    }
    let at = dice.roll(chars.len() - 1);
    match dice.roll(3) {
        0 => {
            chars.remove(at);
        }
        1 => chars.swap(at, at + 1),
        _ => chars.insert(at, chars[at]),
    }
    chars.into_iter().collect()
}

/// Changes the list of steps: their order, their number, their edges.
fn mutate_list(dice: &mut Dice, steps: &mut Vec<Value>) -> Option<String> {
    let n = steps.len();
    let (one, other) = (dice.roll(n), dice.roll(n));
    let id = |step: &Value| step.get("id").and_then(Value::as_str).map(str::to_owned);
    let (one_id, other_id) = (id(steps.get(one)?)?, id(steps.get(other)?)?);
    Some(match dice.roll(6) {
        0 => {
            steps.swap(one, other);
            format!("swap steps {one_id} and {other_id}")
        }
        1 => {
            steps.remove(one);
            format!("drop step {one_id}")
        }
        2 => {
            let copy = steps[one].clone();
            steps.insert(other, copy);
            format!("write step {one_id} again before {other_id}")
        }
        3 => {
            let mut copy = steps[one].clone();
            copy["id"] = json!(format!("{one_id}-again"));
            steps.push(copy);
            format!("write step {one_id} again at the end, under another id")
        }
        4 => {
            let edges = steps[one].get_mut("depends_on")?.as_array_mut()?;
            edges.push(json!({"task_step_id": other_id}));
            format!("let {one_id} depend on {other_id}")
        }
        _ => {
            let edges = steps[one].get_mut("depends_on")?.as_array_mut()?;
            let at = dice.roll(edges.len());
            if at >= edges.len() {
                return None;
            }
            edges.remove(at);
            format!("drop edge {at} of {one_id}")
        }
    })
}
