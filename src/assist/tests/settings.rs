//! The files of settings: what may be written, what it means, and where it leads.

use expect_test::{Expect, expect};

use super::super::settings::{self, File};
use super::{Target, World};

#[test]
fn the_keys_of_the_configuration_are_offered() {
    let check = |marked: &str, expected: Expect| {
        let found = World::new().ask_settings(marked, File::Config, settings::complete);
        let lines = found
            .iter()
            .take(6)
            .map(|one| format!("{} -> {}\n", one.label, one.snippet));
        expected.assert_eq(&lines.collect::<String>());
    };
    check(
        "[cache]\n|",
        expect![[r#"
        dir -> dir = "$1"
        size_limit_gb -> size_limit_gb = $1
        max_age_days -> max_age_days = $1
        durability -> durability = "$1"
    "#]],
    );
    check(
        "[cache]\ndurability = |",
        expect![[r#"
        durable -> "durable"
        fast -> "fast"
    "#]],
    );
    check(
        "[|]",
        expect![[r#"
        cache -> cache
        run -> run
        sandbox -> sandbox
        retry -> retry
        score -> score
        determinism.types -> determinism.types
    "#]],
    );
    check(
        "cache.dur|",
        expect![[r#"
        cache.dir -> cache.dir = "$1"
        cache.size_limit_gb -> cache.size_limit_gb = $1
        cache.max_age_days -> cache.max_age_days = $1
        cache.durability -> cache.durability = "$1"
        run.jobs -> run.jobs = $1
        run.prompt_jobs -> run.prompt_jobs = $1
    "#]],
    );
    check(
        "[models.small]\n|",
        expect![[r#"
        api -> api = "$1"
        base_url -> base_url = "$1"
        model -> model = "$1"
        key_variable -> key_variable = "$1"
        max_concurrent -> max_concurrent = $1
        timeout_seconds -> timeout_seconds = $1
    "#]],
    );
    check("# |", expect![[r#""#]]);
    check("[cache]\nsize_limit_gb = |", expect![[r#""#]]);
}

/// Shows the label, the text and the detail of each completion.
#[track_caller]
fn offers(file: File, marked: &str, expected: Expect) {
    let found = World::new().ask_settings(marked, file, settings::complete);
    let lines = found.iter().map(|one| {
        let detail = one.detail.as_deref().unwrap_or_default();
        format!("{}\n", [&one.label, &one.text, detail].join(" | "))
    });
    expected.assert_eq(&lines.collect::<String>());
}

#[test]
fn names_codes_and_values_are_offered_where_they_fit() {
    offers(
        File::Config,
        "[envs.p|",
        expect![[r#"
        cache | cache | table
        run | run | table
        sandbox | sandbox | table
        retry | retry | table
        score | score | table
        determinism.types | determinism.types | table
        determinism.steps | determinism.steps | table
        lint | lint | table
        python | python | table
        envs.post | envs.post | table
        envs.name | envs.name | table
        envs.post.variables | envs.post.variables | table
        envs.name.variables | envs.name.variables | table
        agents.helper | agents.helper | table
        agents.name | agents.name | table
        agents.helper.variables | agents.helper.variables | table
        agents.name.variables | agents.name.variables | table
        agents.helper.params | agents.helper.params | table
        agents.name.params | agents.name.params | table
        models.name | models.name | table
    "#]],
    );
    offers(
        File::Config,
        "[agents.helper]\nmodel = \"|\"",
        expect![[r#"
            small | "small" | 
        "#]],
    );
    offers(
        File::Config,
        "[agents.helper]\ntype = |",
        expect![[r#"
        scripted | "scripted" | 
        model | "model" | 
        command | "command" | 
        a2a | "a2a" | 
    "#]],
    );
    offers(
        File::Config,
        "[envs.x]\nbuiltin = '|'",
        expect![[r#"
        mail | "mail" | 
        calendar | "calendar" | 
        files | "files" | 
        kv | "kv" | 
    "#]],
    );
    offers(
        File::Config,
        "[lint]\nunneeded-edge = |",
        expect![[r#"
        off | "off" | 
        hint | "hint" | 
        warning | "warning" | 
        error | "error" | 
    "#]],
    );
    offers(
        File::Env,
        "|",
        expect![[r#"
        type | type = "" | 
        id | id = "" | 
        builtin | builtin = "" | 
        command | command = [] | 
        transport | transport = "" | 
        port_variable | port_variable = "" | "PORT" where it is left out
        path | path = "" | "/mcp" where it is left out
        requirements | requirements = "" | 
        mount | mount = [] | [] where it is left out
        url | url = "" | 
        image | image = "" | 
        port | port =  | 18765 where it is left out
        state | state = "" | 
        read_only_tools | read_only_tools = [] | [] where it is left out
        volatile | volatile = [] | [] where it is left out
        ready_timeout_seconds | ready_timeout_seconds =  | 60 where it is left out
        call_timeout_seconds | call_timeout_seconds =  | 600 where it is left out
        max_answer_mb | max_answer_mb =  | 256 where it is left out
        determinism | determinism = "" | 
        clock | clock = "" | "real" where it is left out
    "#]],
    );
    offers(
        File::Env,
        "builtin = \"m|",
        expect![[r#"
        mail | "mail" | 
        calendar | "calendar" | 
        files | "files" | 
        kv | "kv" | 
    "#]],
    );
    offers(
        File::Agent,
        "model = |",
        expect![[r#"
        small | "small" | 
    "#]],
    );
    offers(
        File::Agent,
        "[|",
        expect![[r#"
        variables | variables | table
        params | params | table
    "#]],
    );
    offers(File::Agent, "[variables]\n|", expect![""]);
}

#[test]
fn every_code_that_may_be_set_is_offered_and_no_other() {
    let world = World::new();
    let found = world.ask_settings("[lint]\n|", File::Config, settings::complete);
    let found: Vec<&str> = found.iter().map(|one| one.label.as_str()).collect();
    let codes = crate::check::level::codes();
    let mild = codes.filter(|(_, level)| *level != crate::diagnostic::Severity::Error);
    assert_eq!(found, mild.map(|(code, _)| code).collect::<Vec<_>>());
    let found = world.ask_settings("[determinism.types]\n|", File::Config, settings::complete);
    assert_eq!(found.len(), crate::steps::REGISTRY.0.len());
}

/// Shows what is told of a place, and where it leads.
#[track_caller]
fn tells(file: File, marked: &str, expected: Expect) {
    let world = World::new();
    let hover = world.ask_settings(marked, file, settings::hover);
    let hover = hover.map_or("nothing".to_owned(), |hover| hover.text);
    let found = world.ask_settings(marked, file, settings::definitions);
    let targets = found.map_or_else(Vec::new, |(_, targets)| targets);
    let targets = targets.iter().map(|target| match target {
        Target::File(path) => format!("\n-> {}", path.display()),
        Target::Config(keys) => format!("\n-> {}", keys.join(".")),
        Target::Here(span) => format!("\n-> {span:?}"),
    });
    let targets: String = targets.collect();
    expected.assert_eq(&format!("{hover}{targets}"));
}

#[test]
fn keys_codes_and_names_are_told_and_lead_on() {
    tells(
        File::Config,
        "[cac|he]",
        expect!["**`cache`**: `dir`, `size_limit_gb`, `max_age_days`, `durability`"],
    );
    tells(
        File::Config,
        "[cache]\ndurab|ility = \"fast\"",
        expect![[r#"
            **`cache.durability`**: `durable`, `fast`; `"durable"` where it is left out

            `durable`: a result counts as stored once the disk has it. `fast`: the system writes when it likes, and a result that a power cut takes is made again."#]],
    );
    tells(
        File::Config,
        "[lint]\nunneeded-e|dge = \"off\"",
        expect![[r#"
            **`unneeded-edge`**: a hint where nothing else is said

            A step waits for another and uses nothing of it. It does not run more often for that, but it starts later than it could,
            and not at all where the other one fails the task."#]],
    );
    tells(
        File::Config,
        "lint.unknown-na|me = \"off\"",
        expect![[r#"
        **`unknown-name`**: an error whatever is said here

        A step looks up something by name that no step of the task makes, or an alias is given to what the folder does not
        have."#]],
    );
    tells(
        File::Config,
        "[envs.po|st]",
        expect![[r#"
            env **`post`**

            `builtin` of the folder `envs/post`; what `[envs.post]` says counts more
            -> /w/envs/post/env.toml"#]],
    );
    tells(
        File::Config,
        "[envs.inb|ox]",
        expect![[r#"
            env **`inbox`**

            `builtin` of the folder `envs/post`; what `[envs.inbox]` says counts more
            -> /w/envs/post/env.toml"#]],
    );
    tells(
        File::Config,
        "[envs.sh|op]",
        expect![[r#"
        env **`shop`**

        of `[envs.shop]` alone"#]],
    );
    tells(
        File::Config,
        "[agents.hel|per]",
        expect![[r#"
            agent **`helper`**

            `scripted` of the folder `agents/helper`; what `[agents.helper]` says counts more
            -> /w/agents/helper/agent.toml"#]],
    );
    tells(
        File::Config,
        "[models.sm|all]",
        expect!["model **`small`** of `aebuild.toml`, reached by `openai`"],
    );
    tells(
        File::Config,
        "[models.small]\nmodel = \"sm|all\"",
        expect!["nothing"],
    );
    tells(
        File::Agent,
        "model = \"sm|all\"",
        expect![[r#"
        model **`small`** of `aebuild.toml`, reached by `openai`
        -> models.small"#]],
    );
    tells(
        File::Agent,
        "mod|el = \"small\"",
        expect![[r#"
        **`agents.<name>.model`**: a text

        The model of an agent of the type `model`: the name of a table `[models.<name>]`, else the id of a model. What a step or the command line says counts more."#]],
    );
    tells(
        File::Env,
        "read_only_t|ools = []",
        expect![[r#"
        **`envs.<name>.read_only_tools`**: a list of texts; `[]` where it is left out

        Tools that change nothing, besides those that the server marks with `readOnlyHint`; `*` at the end stands for any ending."#]],
    );
    tells(File::Env, "nonsen|se = 1", expect!["nothing"]);
    tells(File::Config, "# |", expect!["nothing"]);
}

#[test]
fn any_text_is_answered_at_any_place() {
    let text =
        "[envs.post]\n# ü\nurl = \"http://😀\"\r\n[lint]\n'a.b'.\"c = 1\n[[x\n= \"\n[.]\n.=.\n";
    for end in (0..=text.len()).filter(|end| text.is_char_boundary(*end)) {
        for at in (0..=end).filter(|at| text.is_char_boundary(*at)) {
            let marked = format!("{}|{}", &text[..at], &text[at..end]);
            for file in [File::Config, File::Env, File::Agent] {
                let world = &*WORLD;
                for one in world.ask_settings(&marked, file, settings::complete) {
                    assert!(one.replace.end as usize <= end, "{marked:?}");
                }
                world.ask_settings(&marked, file, settings::hover);
                world.ask_settings(&marked, file, settings::definitions);
            }
        }
    }
}

static WORLD: std::sync::LazyLock<World> = std::sync::LazyLock::new(World::new);
