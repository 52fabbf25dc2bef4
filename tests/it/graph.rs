//! Drawings of tasks: what stands in them, that no text of a task becomes markup, and that a browser runs the page.

use std::process::{Command, Stdio};

use expect_test::expect;

use aebuild::json::{Value, from_slice};

use crate::support::World;

/// A name that would end a script and an attribute, and open a comment.
const BAD: &str = "</script><b a='x\" onload=alert(1)>&--><!--";

/// A task with a retry, an edge that only orders, and something that passes by a step.
fn world() -> World {
    let world = World::new();
    let criteria = r#""criteria": [{"type": "bash_cmd_succeeds", "criterion": "It works.\u2028</script>", "bash_cmd": "true"}]"#;
    let bad = Value::from(BAD).to_string();
    world.write(
        "t/tasks/one.json",
        &format!(
            r#"[{{"id": "box", "type": "deploy_sandbox", "sandbox_name": "box", "sandbox_mode": "vm", "depends_on": []}},
                {{"id": "work", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": "work", {criteria},
                  "depends_on": ["box"]}},
                {{"id": "a & b", "type": "verify_sandbox", "sandbox_name": "box", "verifier_id": {bad}, {criteria},
                  "depends_on": ["work"], "retry_config": {{"retry_from_step_id": "work", "max_retries": 2}}}},
                {{"id": "sum", "type": "aggregate_verifiers", "verifier_id": "sum", "verifier_ids": ["work", {bad}],
                  "depends_on": ["a & b"]}},
                {{"id": "end", "type": "teardown_sandboxes", "sandbox_names": ["box"], "depends_on": ["sum"]}}]"#
        ),
    );
    world
}

fn drawn(world: &World, arguments: &[&str]) -> String {
    let output = world.aebuild(&[&["graph", "t"], arguments].concat());
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    String::from_utf8(output.stdout).expect("a drawing is UTF-8")
}

/// Returns the data in a page.
fn data(page: &str) -> Value {
    let start = page.find("id=\"data\">").expect("the data is there") + "id=\"data\">".len();
    let end = page[start..].find("</script>").expect("the data ends") + start;
    from_slice(&page.as_bytes()[start..end]).expect("the data is JSON")
}

fn texts<'v>(value: &'v Value, pointer: &str, name: &str) -> Vec<&'v str> {
    let list = value.pointer(pointer).and_then(Value::as_array);
    let each = list.expect("a list").iter();
    each.map(|one| one[name].as_str().expect("a text"))
        .collect()
}

#[test]
fn a_page_tells_of_each_step_its_state_and_of_each_edge_what_passes() {
    let world = world();
    let page = drawn(&world, &["--html", "-"]);
    let all = data(&page);
    assert_eq!(
        texts(&all, "/0/steps", "class"),
        ["deferred", "never", "never", "never", "deferred"]
    );
    let edges: Vec<String> = all[0]["edges"]
        .as_array()
        .expect("a list")
        .iter()
        .map(Value::to_string)
        .collect();
    expect![[r#"
        [0,1,["sandbox `box`"]]
        [1,2,["state of sandbox `box`"]]
        [1,3,["verification `work`"]]
        [2,3,["verification `</script><b a='x\" onload=alert(1)>&--><!--`"]]
        [2,4,["state of sandbox `box`"]]
        [3,4,[]]"#]]
    .assert_eq(&edges.join("\n"));
    let more = all[0]["steps"][2]["more"][0].as_str().expect("a text");
    assert!(
        more.starts_with("when it fails, at most 2 times: work, a & b, "),
        "{more}"
    );
    assert_eq!(all[0]["steps"][1]["place"], "t/tasks/one.json:2");
    let ran = world.aebuild(&["run", "t"]);
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    let all = data(&drawn(&world, &["--html", "-"]));
    assert_eq!(
        texts(&all, "/0/steps", "class"),
        ["deferred", "hit", "hit", "hit", "deferred"]
    );
    let last = all[0]["steps"][1]["last"].as_str().expect("it ran");
    assert!(last.ends_with("score 1"), "{last}");
}

#[test]
fn no_text_of_a_task_becomes_markup() {
    let world = world();
    for form in ["html", "svg"] {
        let text = drawn(&world, &["--format", form]);
        assert!(!text.contains("<b "), "{form}");
        assert!(!text.contains('\u{2028}'), "{form}");
        assert!(!text.contains("--><!--"), "{form}");
        assert_eq!(
            text.matches("<script").count(),
            text.matches("</script>").count()
        );
        let n_scripts = if form == "html" { 2 } else { 0 };
        assert_eq!(text.matches("<script").count(), n_scripts, "{form}");
        assert!(!text.contains("href") && !text.contains("src="), "{form}");
        assert!(text.contains("&lt;/script&gt;"), "{form}");
    }
}

#[test]
fn the_same_task_is_drawn_the_same_and_without_what_is_secret() {
    let world = world();
    let key = "sk-proj-A1b2C3d4E5f6G7h8I9j0";
    let task = std::fs::read_to_string(world.path().join("t/tasks/one.json")).expect("it is there");
    world.write("t/tasks/one.json", &task.replace("It works.", key));
    for form in ["html", "svg"] {
        let first = drawn(&world, &["--format", form]);
        assert_eq!(first, drawn(&world, &["--format", form]));
        assert!(!first.contains("A1b2C3d4"), "{form}");
    }
}

#[test]
fn a_drawing_is_written_over_a_drawing_and_over_nothing_else() {
    let world = world();
    for _ in 0..2 {
        let output = world.aebuild(&["graph", "t", "--html", "t.html", "--svg", "t.svg"]);
        assert!(output.status.success());
        assert_eq!(output.stdout, b"");
    }
    let page = std::fs::read_to_string(world.path().join("t.html")).expect("it was written");
    assert_eq!(page, drawn(&world, &["--format", "html"]));
    let output = world.aebuild(&["graph", "--svg", "t/tasks/one.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "error: `t/tasks/one.json` is there already, and is no drawing\n  help: name another file, or remove it\n"
    );
    let task = std::fs::read_to_string(world.path().join("t/tasks/one.json")).expect("it is there");
    assert!(task.starts_with("[{"), "{task}");
}

/// Loads a page in a browser and returns what stands in it then, and what the browser says of its script; `None` where
/// there is no browser.
fn browse(world: &World, address: &str) -> Option<(String, String)> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| {
        let mut version = Command::new(name);
        version
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        version.status().is_ok_and(|status| status.success())
    });
    let Some(browser) = found else {
        eprintln!("SKIPPED, since there is no chromium: the script of the page of `graph --html`");
        return None;
    };
    let output = world
        .command("timeout")
        .args(["-k", "5", "120", browser])
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args(["--enable-logging=stderr", "--dump-dom", address])
        .output()
        .expect("timeout starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let of_page: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!page.is_empty(), "the browser says: {said}");
    Some((page, of_page.join("\n")))
}

#[test]
fn a_browser_runs_the_page_without_an_error_and_finds_and_shows_steps() {
    let world = world();
    let mut page = drawn(&world, &["--html", "-"]);
    // What a reader does, as a second script of the page.
    let start = page.find("nonce-").expect("the page has a policy") + "nonce-".len();
    let end = page[start..].find('\'').expect("the policy ends") + start;
    let nonce = page[start..end].to_owned();
    let reader = r#"
        const say = (name, text) => { document.documentElement.dataset[name] = text; };
        const type = (key, target) => target.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));
        say("opened", details.querySelector("h2").textContent);
        type("ArrowDown", view);
        say("below", details.querySelector("h2").textContent);
        type("Escape", view);
        say("closed", String(details.hidden));
        find.value = "aggregate";
        find.dispatchEvent(new Event("input"));
        say("found", by("found").textContent);
        type("Enter", find);
        say("chosen", details.querySelector("h2").textContent);
        say("from", [...details.querySelectorAll("li button")].map(one => one.textContent).join("; "));
        box("0-1").dispatchEvent(new MouseEvent("click", {bubbles: true}));
        say("clicked", details.querySelector("h2").textContent);
        say("near", [...svg.querySelectorAll(".s.near .id")].map(one => one.textContent).join("; "));
        type("+", view);
        say("larger", String(Number(svg.getAttribute("width")) > wide));
    "#;
    let script = format!("<script nonce=\"{nonce}\">{reader}</script>\n</body>");
    page = page.replace("</body>", &script);
    world.write("page.html", &page);
    let address = format!("file://{}/page.html#box", world.path().display());
    let Some((shown, console)) = browse(&world, &address) else {
        return;
    };
    assert_eq!(console, "");
    let of = |name: &str| {
        let start = shown.find(&format!("data-{name}=\""))? + name.len() + 7;
        Some(&shown[start..start + shown[start..].find('"')?])
    };
    assert_eq!(of("ready"), Some("yes"));
    assert_eq!(of("opened"), Some("box"));
    assert_eq!(of("below"), Some("work"));
    assert_eq!(of("closed"), Some("true"));
    assert_eq!(of("found"), Some("1 step"));
    assert_eq!(of("chosen"), Some("sum"));
    assert_eq!(of("from"), Some("work; a &amp; b; end"));
    assert_eq!(of("clicked"), Some("work"));
    assert!(of("near").is_some_and(|near| near.starts_with("box; ") && near.ends_with("; sum")));
    assert_eq!(of("larger"), Some("true"));
}
