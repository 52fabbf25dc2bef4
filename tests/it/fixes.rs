//! What mends a fault mends it: each fix of each example of the error index is made and the folder checked again.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use aebuild::diagnostic::{Diagnostic, Safety, line_column, mend, sort};
use aebuild::session::{RunOptions, Session, SessionError, SessionOptions};
use aebuild::steps;
use aebuild::system::{OsSystem, Overlay};
use expect_test::expect;

use crate::support::{World, files, root};

fn check(system: &Overlay, folder: &Path) -> Vec<Diagnostic> {
    let options = SessionOptions {
        paths: vec![folder.to_owned()],
        cache_dir: None,
        no_cache: true,
    };
    let session = Session::open(Arc::new(system.clone()), steps::REGISTRY, options);
    let found = session.and_then(|mut session| session.check(&RunOptions::default()));
    let mut found = match found {
        Ok(found) | Err(SessionError::Faults(found)) => found,
        Err(_) => Vec::new(),
    };
    sort(&mut found);
    found
}

/// Returns each error that no fix mends beyond doubt, with the line that it is in.
fn errors(found: &[Diagnostic]) -> BTreeSet<(&str, usize)> {
    let is_sure = |fault: &&Diagnostic| fault.fixes.iter().any(|fix| fix.safety == Safety::Sure);
    let errors = found
        .iter()
        .filter(|fault| fault.is_error() && !is_sure(fault));
    let places = errors.filter_map(|fault| {
        let label = fault.place()?;
        let (line, _) = line_column(&label.source.text, label.span.start as usize);
        Some((fault.code.as_str(), line))
    });
    places.collect()
}

#[test]
fn every_fix_of_every_example_takes_its_fault_away() {
    let mut faults = Vec::new();
    let mut mended: BTreeSet<(String, &str)> = BTreeSet::new();
    for page in files("tasks/errors", "README.md") {
        let folder = root()
            .join(&page)
            .parent()
            .expect("it is in a folder")
            .to_owned();
        let plain = Overlay::new(Arc::new(OsSystem));
        let found = check(&plain, &folder);
        for fault in &found {
            for (at, fix) in fault.fixes.iter().enumerate() {
                let mut view = plain.clone();
                for (source, text) in mend(std::slice::from_ref(fault), |_| Some(at)).texts {
                    let replaced = view.replace(Path::new(&source.name), text.into_bytes());
                    replaced.expect("the text is a file's");
                }
                let after = check(&view, &folder);
                let is_it = |other: &Diagnostic| {
                    other.code == fault.code && other.headline == fault.headline
                };
                if after.iter().filter(|other| is_it(other)).count()
                    >= found.iter().filter(|other| is_it(other)).count()
                {
                    faults.push(format!(
                        "{page}: {} is still there after `{}`",
                        fault.code, fix.title
                    ));
                }
                if fix.safety == Safety::Sure {
                    let fresh: Vec<_> = errors(&after)
                        .difference(&errors(&found))
                        .copied()
                        .collect();
                    if !fresh.is_empty() {
                        faults.push(format!(
                            "{page}: `{}` of {} brings {fresh:?}",
                            fix.title, fault.code
                        ));
                    }
                    mended.insert((fault.code.to_string(), "sure"));
                } else {
                    mended.insert((fault.code.to_string(), "offered"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let mended: Vec<String> = mended
        .into_iter()
        .map(|(code, how)| format!("{code} {how}\n"))
        .collect();
    expect![[r#"
        comment offered
        duplicate-key offered
        ends-nothing offered
        inner-quote offered
        mismatched-bracket offered
        missing-colon sure
        missing-comma offered
        missing-comma sure
        misspelt-literal sure
        no-path-to-producer sure
        null-dependency offered
        number-bare-point sure
        number-leading-plus sure
        number-leading-zero offered
        number-not-exact offered
        odd-quotes sure
        odd-whitespace sure
        raw-control-character sure
        repeated-dependency sure
        retry-span-conflict offered
        retry-target-not-an-ancestor offered
        self-dependency offered
        single-quotes sure
        trailing-comma sure
        two-retry-targets offered
        unclosed-string offered
        unfinished offered
        unknown-agent offered
        unknown-artifact sure
        unknown-code offered
        unknown-dependency offered
        unknown-env offered
        unknown-escape offered
        unknown-field sure
        unknown-name offered
        unknown-retry-target offered
        unknown-type sure
        unneeded-edge offered
        unopened-bracket offered
        unordered-changes offered
        unordered-conversation offered
        unordered-observer offered
        unquoted-key sure
        unquoted-string offered
    "#]]
    .assert_eq(&mended.concat());
}

const BROKEN: &str = r#"[
  {
    'id': "box", "type": "deploy_sandbox",
    "sandbox_name": "box", "sandbox_mode": "vm",
  },
  {"id": "work" "type": "verify_sandbox", "sandboxName": "box",
   "verifier_id": "work", "depends_on": ["box", "work"],
   "criteria": [{"type": "bash_cmd_succeeds", "criterion": "Ω", "bash_cmd": "true"}] }
]"#;

#[test]
fn fixes_are_shown_then_made_and_then_there_is_nothing_to_mend() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.write("t/tasks/one.json", BROKEN);
    let file = world.path().join("t/tasks/one.json");
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("it is ours");
    let text = || std::fs::read_to_string(&file).expect("it is there");

    let (shown, status) = world.shell("aebuild check t --diff --format concise");
    assert_eq!((text().as_str(), status), (BROKEN, Some(1)));
    expect![[r#"
        t/tasks/one.json:3:5: write double quotes [single-quotes]
        t/tasks/one.json:4:48: delete the comma [trailing-comma]
        t/tasks/one.json:6:16: write `,` [missing-comma]
        t/tasks/one.json:6:43: write `sandbox_name` [unknown-field]
        --- t/tasks/one.json
        +++ t/tasks/one.json
        @@ -1,9 +1,9 @@
         [
           {
        -    'id': "box", "type": "deploy_sandbox",
        -    "sandbox_name": "box", "sandbox_mode": "vm",
        +    "id": "box", "type": "deploy_sandbox",
        +    "sandbox_name": "box", "sandbox_mode": "vm"
           },
        -  {"id": "work" "type": "verify_sandbox", "sandboxName": "box",
        +  {"id": "work", "type": "verify_sandbox", "sandbox_name": "box",
            "verifier_id": "work", "depends_on": ["box", "work"],
            "criteria": [{"type": "bash_cmd_succeeds", "criterion": "Ω", "bash_cmd": "true"}] }
         ]
        \ No newline at end of file
        4 fixes would be made in 1 file
        1 more fix that somebody should look at: `--fix=all`
        t/tasks/one.json:7:49: error[self-dependency]: step `work` depends on itself
        1 error
    "#]]
    .assert_eq(&shown);

    let (_, status) = world.shell("aebuild check t --fix --format concise");
    assert_eq!(status, Some(1));
    let (said, status) = world.shell("aebuild check t --fix=all --format concise");
    expect![[r#"
        t/tasks/one.json:7:47: delete the entry [self-dependency]
        1 fix made in 1 file
        no faults
    "#]]
    .assert_eq(&said);
    assert_eq!(status, Some(0));
    expect![[r#"
        [
          {
            "id": "box", "type": "deploy_sandbox",
            "sandbox_name": "box", "sandbox_mode": "vm"
          },
          {"id": "work", "type": "verify_sandbox", "sandbox_name": "box",
           "verifier_id": "work", "depends_on": ["box"],
           "criteria": [{"type": "bash_cmd_succeeds", "criterion": "Ω", "bash_cmd": "true"}] }
        ]"#]]
    .assert_eq(&text());
    let mode = std::fs::metadata(&file)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);

    let before = text();
    let (said, status) = world.shell("aebuild check t --fix=all");
    assert_eq!(
        (said.as_str(), status),
        ("there is nothing to mend\nno faults\n", Some(0))
    );
    assert_eq!(text(), before);
    let left = std::fs::read_dir(world.path().join("t/tasks"))
        .expect("it is there")
        .count();
    assert_eq!(left, 1);
}

#[test]
fn a_file_whose_bytes_would_be_lost_is_left_alone_and_another_encoding_is_mended() {
    let world = World::new();
    let folder = world.path().join("t/tasks");
    std::fs::create_dir_all(&folder).expect("it is made");
    let bytes = b"[{\"id\": \"a\xff\", \"type\": \"deploy_sandbox\",}]";
    std::fs::write(folder.join("one.json"), bytes).expect("it is written");
    let (said, status) = world.shell("aebuild check t --fix=all --format concise");
    assert!(said.contains("there is nothing to mend"), "{said}");
    assert_eq!(status, Some(1));
    assert_eq!(
        std::fs::read(folder.join("one.json")).expect("it is there"),
        bytes
    );

    let text = "[{\"id\": \"a\", \"type\": \"deploy_sandbox\", \"sandbox_name\": \"a\", \"sandbox_mode\": \"vm\"}]\n";
    let wide: Vec<u8> = format!("\u{feff}{text}")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    std::fs::write(folder.join("one.json"), wide).expect("it is written");
    let (_, status) = world.shell("aebuild check t --fix");
    assert_eq!(status, Some(0));
    assert_eq!(
        std::fs::read_to_string(folder.join("one.json")).expect("it is there"),
        text
    );
}
