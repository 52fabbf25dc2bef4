//! Virtual environments for programs of authors: made once for a set of packages, kept in the cache folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::digest::Digester;
use crate::system::disk;

/// The name of the file that says that an environment is whole.
const WHOLE: &str = "whole";

/// Returns the interpreter of an environment below `folder` that has these packages, made where it is not there yet.
///
/// Who comes second waits for who makes it. The error says what `pip` said.
pub fn environment(folder: &Path, packages: &[String]) -> Result<PathBuf, String> {
    let python = find_python()
        .ok_or("there is no `python3` in the folders where sandboxes look for programs")?;
    let version = Command::new(&python)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{}` could not be run: {error}", python.display()))?;
    let mut packages: Vec<&str> = packages.iter().map(|package| package.trim()).collect();
    packages.sort_unstable();
    packages.dedup();
    let mut digester = Digester::new("python environment");
    digester.text(&String::from_utf8_lossy(&version.stdout));
    digester.text(&python.to_string_lossy());
    packages.iter().for_each(|package| {
        digester.text(package);
    });
    let name = digester.finish().to_string()[..20].to_owned();
    let home = folder.join(&name);
    let interpreter = home.join("bin").join("python3");
    if disk::exists(&home.join(WHOLE)) {
        return Ok(interpreter);
    }
    let failed = |verb: &str| {
        let what = format!("cannot {verb} `{}`", home.display());
        move |error: io::Error| format!("{what}: {error}")
    };
    disk::create_dir_all(folder).map_err(failed("make the folder of"))?;
    let lock =
        disk::open_or_create(&folder.join(format!("{name}.lock"))).map_err(failed("lock"))?;
    lock.lock().map_err(failed("lock"))?;
    if disk::exists(&home.join(WHOLE)) {
        return Ok(interpreter);
    }
    // What a killed run left half made.
    if disk::exists(&home) {
        disk::remove_dir_all(&home).map_err(failed("remove"))?;
    }
    run(Command::new(&python).args(["-m", "venv"]).arg(&home))?;
    let mut pip = Command::new(&interpreter);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--no-input", "--"]).args(&packages);
    run(&mut pip)?;
    disk::write(&home.join(WHOLE), packages.join("\n").as_bytes()).map_err(failed("write to"))?;
    Ok(interpreter)
}

/// Returns the packages that a requirements file names: its lines without comments and options.
pub fn requirements(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line).trim());
    let is_package = |line: &&str| !line.is_empty() && !line.starts_with(['#', '-']);
    lines.filter(is_package).map(str::to_owned).collect()
}

/// Returns requirements with others that count more: of a package that both name, only theirs are left.
pub fn joined(packages: &[String], more: &[String]) -> Vec<String> {
    let name = |requirement: &str| -> String {
        let is_of_name = |c: &char| c.is_ascii_alphanumeric() || "-_.".contains(*c);
        let name = requirement.trim().chars().take_while(is_of_name);
        name.map(|c| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect()
    };
    let theirs: Vec<String> = more.iter().map(|package| name(package)).collect();
    let rest = packages
        .iter()
        .filter(|package| !theirs.contains(&name(package)));
    rest.chain(more).cloned().collect()
}

fn find_python() -> Option<PathBuf> {
    super::local_exec::PATH
        .split(':')
        .map(|folder| Path::new(folder).join("python3"))
        .find(|path| disk::exists(path))
}

/// Runs a command; the error is the end of what it wrote.
fn run(command: &mut Command) -> Result<(), String> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let ended = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{shown}` could not be run: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let mut last = crate::step::env::LastLines::default();
    last.push(&ended.stdout);
    last.push(&ended.stderr);
    Err(format!("`{shown}` failed:\n{}", last.text()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_configuration_says_of_a_package_counts() {
        let texts =
            |texts: &[&str]| -> Vec<String> { texts.iter().map(|&t| t.to_owned()).collect() };
        let joined = joined(
            &texts(&["Mcp>=1", "http_x"]),
            &texts(&["mcp==1.30.0", "rich"]),
        );
        assert_eq!(joined, ["http_x", "mcp==1.30.0", "rich"]);
    }

    #[test]
    fn a_requirements_file_names_packages() {
        let text = "# tools\nmcp==1.30.0 # pinned\n\n-r other.txt\n--hash=x\nhttpx[http2]>=0.27; python_version > '3.8'\n";
        assert_eq!(
            requirements(text),
            ["mcp==1.30.0", "httpx[http2]>=0.27; python_version > '3.8'"]
        );
    }
}
