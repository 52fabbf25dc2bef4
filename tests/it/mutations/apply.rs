//! Draws a mutation and makes it.

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

/// A file as it becomes: its new bytes, or none where it is removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mutation {
    /// What it does, in words.
    pub(super) said: String,
    path: PathBuf,
    bytes: Option<Vec<u8>>,
}

/// What undoes a mutation.
pub(super) struct Undo {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Undo {
    pub(super) fn undo(self) {
        std::fs::write(&self.path, self.bytes).expect("the file is written");
    }
}

impl Mutation {
    /// Draws a mutation of a task file, or of another file of its folder.
    pub(super) fn draw(dice: &mut Dice, folder: &Path, task: &Path) -> Option<Self> {
        match dice.roll(10) {
            0..=6 => Self::of_task(dice, task),
            7 => Self::of_text(dice, task),
            8 => {
                let all = super::all_files(folder);
                let tables: Vec<&PathBuf> = all
                    .iter()
                    .filter(|path| path.extension().is_some_and(|end| end == "toml"))
                    .collect();
                let path = (*dice.pick(&tables)?).clone();
                Self::of_table(dice, &path)
            }
            _ => {
                let all = super::all_files(folder);
                let others: Vec<&PathBuf> = all
                    .iter()
                    .filter(|path| {
                        path.as_path() != task
                            && !path.ends_with("README.md")
                            && path.parent().and_then(Path::file_name) != Some("tasks".as_ref())
                    })
                    .collect();
                let path = (*dice.pick(&others)?).clone();
                let name = path.file_name()?.to_string_lossy().into_owned();
                Some(Mutation {
                    said: format!("remove the file {name}"),
                    path,
                    bytes: None,
                })
            }
        }
    }

    pub(super) fn apply(&self) -> Undo {
        let undo = Undo {
            path: self.path.clone(),
            bytes: std::fs::read(&self.path).expect("the file is there"),
        };
        match &self.bytes {
            Some(bytes) => std::fs::write(&self.path, bytes).expect("the file is written"),
            None => std::fs::remove_file(&self.path).expect("the file is there"),
        }
        undo
    }

    fn of_task(dice: &mut Dice, path: &Path) -> Option<Self> {
        let text = std::fs::read_to_string(path).ok()?;
        let mut tree: Value = serde_json::from_str(&text).ok()?;
        let said = mutate(dice, &mut tree)?;
        Some(Mutation {
            said,
            path: path.to_path_buf(),
            bytes: Some(tree.to_string().into_bytes()),
        })
    }

    /// Damages a text: a byte is lost, or all behind one.
    fn of_text(dice: &mut Dice, path: &Path) -> Option<Self> {
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
        Some(Mutation {
            said,
            path: path.to_path_buf(),
            bytes: Some(bytes),
        })
    }

    /// Changes a line of a TOML file.
    fn of_table(dice: &mut Dice, path: &Path) -> Option<Self> {
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
        Some(Mutation {
            said,
            path: path.to_path_buf(),
            bytes: Some((lines.join("\n") + "\n").into_bytes()),
        })
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
