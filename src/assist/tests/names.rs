//! Names: where they are made, new ones, and whether all are known.

use std::collections::BTreeSet;
use std::path::Path;

use super::super::*;
use super::{TASK, World, with};
use crate::context::Lookup;
use crate::json;
use crate::step::NameRef;
use crate::steps::REGISTRY;
use crate::system::System;
use crate::task::folder;

#[track_caller]
fn check_definition(marked: &str, expected: &str) {
    let found = World::new().ask(marked, |scene, offset| {
        let Some((span, all)) = definitions(scene, offset) else {
            return "nothing".to_owned();
        };
        let all = all.iter().map(|target| match target {
            Target::Here(span) => {
                let (line, column) =
                    crate::diagnostic::line_column(&scene.source.text, span.start as usize);
                format!("{line}:{column} {}", scene.source.slice(*span))
            }
            Target::File(path) => path.display().to_string(),
            Target::Config(keys) => keys.join("."),
        });
        format!(
            "{} -> {}",
            scene.source.slice(span),
            all.collect::<Vec<_>>().join(", ")
        )
    });
    assert_eq!(found, expected, "{marked}");
}

#[test]
fn a_name_leads_to_what_it_names() {
    let at = |from: &str, to: &str| TASK.replacen(from, to, 1);
    check_definition(&at(r#"["ask"]"#, r#"["a|sk"]"#), "ask -> 5:11 ask");
    check_definition(
        &at(r#""prompt_id": "ask""#, r#""prompt_id": "|ask""#),
        "ask -> 5:11 ask",
    );
    check_definition(&at(r#"["said"]"#, r#"["said|"]"#), "said -> 6:11 said");
    check_definition(
        &at(
            r#""agent_name": "clerk", "prompt""#,
            r#""agent_name": "c|lerk", "prompt""#,
        ),
        "clerk -> 3:58 clerk, /w/agents/helper/agent.toml",
    );
    check_definition(
        &at(r#""helper""#, r#""h|elper""#),
        "helper -> /w/agents/helper/agent.toml",
    );
    check_definition(
        &at(r#"["post"]"#, r#"["p|ost"]"#),
        "post -> 2:51 post, /w/envs/post/env.toml",
    );
    check_definition(
        &at(r#""env_id": "post""#, r#""env_id": "p|ost""#),
        "post -> /w/envs/post/env.toml",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "in|box"}"#),
        "inbox -> /w/envs/post/env.toml",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "sh|op"}"#),
        "shop -> envs.shop",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "load_artifact", "artifacts": [{"id": "le|tter"}]}"#),
        "letter -> /w/artifacts/letter/letter.txt",
    );
    check_definition(
        &with(r#"{"id": "x", "type": "load_artifact", "artifact_id": "che|ck"}"#),
        "check -> /w/artifacts/check/artifact.toml",
    );
    check_definition(
        &with(
            r#"{"id": "x", "type": "run_code", "script_artifact_id": "check", "script_file": "li|b/util.py"}"#,
        ),
        "lib/util.py -> /w/artifacts/check/lib/util.py",
    );
    check_definition(&at(r#""Hello""#, r#""He|llo""#), "nothing");
    // A text that is not JSON is no reason to know nothing.
    check_definition(&at(r#"["ask"]"#, r#"["a|sk"], "x": ,"#), "ask -> 5:11 ask");
}

#[track_caller]
fn check_rename(marked: &str, to: &str, expected: Result<&[&str], &str>) {
    let found = World::new().ask(marked, |scene, offset| {
        let renamed = rename(scene, offset, to).map_err(|refused| refused.0)?;
        let lines = scene.source.text.lines().map(str::to_owned);
        let mut lines: Vec<String> = lines.collect();
        for edit in renamed.expect("a name").edits.iter().rev() {
            let (line, column) =
                crate::diagnostic::line_column(&scene.source.text, edit.span.start as usize);
            let range = column - 1..column - 1 + edit.span.len();
            lines[line - 1].replace_range(range, &edit.text);
        }
        let changed = lines.into_iter().zip(scene.source.text.lines());
        let changed = changed.filter(|(new, old)| new != old);
        Ok(changed
            .map(|(new, _)| new.trim().to_owned())
            .collect::<Vec<_>>())
    });
    let found = found
        .as_ref()
        .map(Vec::as_slice)
        .map_err(|error: &String| error.as_str());
    let expected = expected.map(|lines| {
        lines
            .iter()
            .map(|line| (*line).to_owned())
            .collect::<Vec<_>>()
    });
    assert_eq!(
        found,
        expected.as_ref().map(Vec::as_slice).map_err(|error| *error),
        "{marked}"
    );
}

#[test]
fn what_gets_another_name_gets_it_everywhere() {
    let at = |from: &str, to: &str| TASK.replacen(from, to, 1);
    // The reply goes by the id of its step.
    check_rename(
        &at(r#"["ask"]"#, r#"["a|sk"]"#),
        "greet",
        Ok(&[
            r#"{"id": "greet", "type": "prompt_agent", "agent_name": "clerk", "prompt": "Hello", "depends_on": ["clerk"]},"#,
            r#"{"id": "said", "type": "agent_prompt_response_verifier", "prompt_id": "greet", "criteria": [], "depends_on": ["greet"]},"#,
        ]),
    );
    // The agent does not go by the id of its step.
    check_rename(
        &at(
            r#""agent_name": "clerk", "prompt""#,
            r#""agent_name": "c|lerk", "prompt""#,
        ),
        "Ann",
        Ok(&[
            r#"{"id": "clerk", "type": "deploy_agent", "agent_name": "Ann", "a2a_agent_id": "helper", "env_ids": ["post"]},"#,
            r#"{"id": "ask", "type": "prompt_agent", "agent_name": "Ann", "prompt": "Hello", "depends_on": ["clerk"]},"#,
        ]),
    );
    check_rename(
        &at(r#""den""#, r#""d|en""#),
        "a \"b\"",
        Err(
            "`a \"b\"` has the character `\"`: use letters, digits and any of ` ._-~@()+,&`, and start with a letter or digit",
        ),
    );
    check_rename(
        &at(r#"["ask"]"#, r#"["a|sk"]"#),
        "box",
        Err("there is a step `box` already"),
    );
    check_rename(
        &at(r#"["post"]"#, r#"["p|ost"]"#),
        "mail2",
        Err(
            "`post` is the name of the folder envs/post: rename the folder, and then what names it",
        ),
    );
    check_rename(
        &at(
            r#""agent_name": "clerk", "a2a_agent_id": "helper""#,
            r#""agent_name": "hel|per""#,
        ),
        "x",
        Err(
            "`helper` is the name of the folder agents/helper: rename the folder, and then what names it, or add \"a2a_agent_id\": \"helper\" to the step that deploys it",
        ),
    );
    check_rename(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "in|box"}"#),
        "letters",
        Ok(&[r#"{"id": "x", "type": "deploy_env", "env_id": "letters"}"#]),
    );
    check_rename(
        &with(r#"{"id": "x", "type": "deploy_env", "env_id": "sh|op"}"#),
        "y",
        Err(
            "`shop` is [envs.shop] of aebuild.toml, which other folders may name too: rename it there",
        ),
    );
}

#[test]
fn steps_are_the_outline_of_a_task() {
    let found = World::new().ask(
        r#"[{"id": "a", "type": "note"}, {"type": "x"}, 3]"#,
        |scene, _| symbols(scene),
    );
    let said: Vec<_> = found
        .iter()
        .map(|one| (one.name.as_str(), one.kind.as_str(), one.id))
        .collect();
    assert_eq!(
        said,
        [
            ("a", "note", Span { start: 9, end: 10 }),
            ("step 2", "x", Span { start: 30, end: 43 }),
        ]
    );
}

/// Every name that a built step reads, makes or uses is known by where it stands, and as what it is.
#[test]
fn names_are_where_the_steps_say_they_are() {
    let system = crate::system::OsSystem;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tasks");
    let (mut seen, mut missing) = (0, BTreeSet::new());
    let folders = system.read_folder(&root).expect("there are tasks");
    for entry in folders.iter().filter(|entry| entry.name != "errors") {
        let (folder, _) = folder::read(&system, &root.join(&entry.name), "");
        for task in &folder.tasks {
            let (source, _) =
                folder::read_source(&system, &task.path, &task.shown).expect("a task");
            let parsed = crate::task::parse::parse(&task.name, &source, &REGISTRY);
            let root = json::parse(&source).root.expect("a tree");
            let (config, tools) = (Config::default(), EnvTools::new());
            let scene = Scene {
                source: &source,
                root: &root,
                folder: &folder,
                config: &config,
                types: REGISTRY,
                tools: &tools,
            };
            let sites = sites(&scene);
            for (at, decl) in parsed.task.steps.iter().enumerate() {
                let step_type = REGISTRY.find(&decl.kind).expect("a type");
                let Ok(step) = (step_type.build)(&decl.id, &decl.fields) else {
                    continue;
                };
                let lookups = |refs: Vec<NameRef>, makes: bool| {
                    refs.into_iter().map(move |one| {
                        let name = match one.lookup {
                            Lookup::Env(name) => Name::new(Noun::Env, name),
                            Lookup::Agent(name) => Name::new(Noun::Agent, name),
                            Lookup::Sandbox(name) => Name::new(Noun::Sandbox, name),
                            Lookup::Prompt(name) => Name::new(Noun::Prompt, name),
                            Lookup::Metadata(path) => match &path[..] {
                                [first, id] if first == "verifications" => {
                                    Name::new(Noun::Verifier, id)
                                }
                                _ => return None,
                            },
                        };
                        Some((one.field, name, makes))
                    })
                };
                let artifacts = step.artifacts().into_iter();
                let artifacts = artifacts
                    .map(|one| Some((one.field, Name::new(Noun::Artifact, one.name), false)));
                let all = lookups(step.reads(), false)
                    .chain(lookups(step.provides(), true))
                    .chain(artifacts);
                for (field, name, makes) in all.flatten() {
                    let place = parsed.places.exact(crate::graph::StepIx(at as u32), &field);
                    let Some(span) = place else { continue };
                    seen += 1;
                    let is_known = sites.iter().any(|site| {
                        let same = site.name == name
                            || site.name.noun == Noun::Step && site.name.text == name.text;
                        same && span.start <= site.span.start
                            && site.span.end <= span.end
                            && (site.makes == makes || !makes)
                    });
                    if !is_known {
                        missing.insert(format!("{} {field} {name:?} makes {makes}", decl.kind));
                    }
                }
            }
        }
    }
    assert!(seen > 100, "{seen} names");
    assert_eq!(missing, BTreeSet::new());
}
