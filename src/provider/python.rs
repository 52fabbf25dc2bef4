//! Virtual environments for programs of authors: made once for a set of packages, kept in the cache folder.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::digest::Digester;
use crate::system::disk;

/// How often who waits for another's environment looks whether it is made.
const LOCK_EACH: Duration = Duration::from_millis(50);

/// Returns the interpreter of an environment below `folder` that has these packages, made where it is not there yet.
///
/// Who comes second waits for who makes it. The error says what `pip` said.
/// Who is dropped at it ends what it started.
pub async fn environment(folder: &Path, packages: &[String]) -> Result<PathBuf, String> {
    let python = find_python()
        .ok_or("there is no `python3` in the folders where sandboxes look for programs")?;
    let version = Command::new(&python)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .await
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
    let made = folder.join(format!("{name}.made"));
    if let Some(interpreter) = whole(folder, &made) {
        return Ok(interpreter);
    }
    let failed = |verb: &str| {
        let what = format!("cannot {verb} `{}`", folder.join(&name).display());
        move |error: io::Error| format!("{what}: {error}")
    };
    disk::create_dir_all(folder).map_err(failed("make the folder of"))?;
    let lock =
        disk::open_or_create(&folder.join(format!("{name}.lock"))).map_err(failed("lock"))?;
    let locked = async {
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(()),
                Err(error) => match io::Error::from(error) {
                    error if error.kind() == io::ErrorKind::WouldBlock => {
                        tokio::time::sleep(LOCK_EACH).await;
                    }
                    error => return Err(error),
                },
            }
        }
    };
    locked.await.map_err(failed("lock"))?;
    if let Some(interpreter) = whole(folder, &made) {
        return Ok(interpreter);
    }
    // What a killed run left half made is in nobody's way: what it started may still write there.
    for other in disk::read_dir(folder).unwrap_or_default() {
        let is_ours = other.to_string_lossy().starts_with(&format!("{name}-"));
        if is_ours {
            // What is left of it goes with the cache.
            let _ = disk::remove_dir_all(&folder.join(other));
        }
    }
    let mut n = 0;
    let home = loop {
        let home = folder.join(format!("{name}-{n}"));
        if !disk::exists(&home) {
            break home;
        }
        n += 1;
    };
    let interpreter = home.join("bin").join("python3");
    run(Command::new(&python).args(["-m", "venv"]).arg(&home)).await?;
    let mut pip = Command::new(&interpreter);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--no-input", "--"]).args(&packages);
    run(&mut pip).await?;
    let name = home.file_name().unwrap_or_default();
    let half = folder.join(format!("{}.half", name.display()));
    disk::write(&half, name.as_encoded_bytes()).map_err(failed("write to"))?;
    disk::rename(&half, &made).map_err(failed("write to"))?;
    Ok(interpreter)
}

/// Returns the interpreter of an environment that is whole: a file names its folder.
fn whole(folder: &Path, made: &Path) -> Option<PathBuf> {
    let name = disk::read_to_string(made).ok()?;
    let interpreter = folder.join(name).join("bin").join("python3");
    disk::exists(&interpreter).then_some(interpreter)
}

/// Returns the packages that a requirements file names; the error is the first line that is no package.
pub fn requirements(text: &str) -> Result<Vec<String>, String> {
    let text = text.replace("\\\n", " ");
    let lines = text
        .lines()
        .map(|line| line.split(" #").next().unwrap_or(line).trim());
    let mut packages = Vec::new();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        // Options say where other packages come from, which the environment would silently be without.
        if line.starts_with('-') || line.contains(" --") {
            return Err(format!(
                "`{line}` is not the name of a package, and options are not supported"
            ));
        }
        packages.push(line.to_owned());
    }
    Ok(packages)
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
async fn run(command: &mut Command) -> Result<(), String> {
    let shown = command.as_std().get_program().to_string_lossy();
    let shown = shown.into_owned();
    let ended = command
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
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
        let text = "# tools\nmcp==1.30.0 # pinned\n\nhttpx[http2]>=0.27; python_version > '3.8'\n";
        assert_eq!(
            requirements(text).unwrap(),
            ["mcp==1.30.0", "httpx[http2]>=0.27; python_version > '3.8'"]
        );
        let refused = |text: &str| requirements(text).unwrap_err();
        assert!(refused("a\n-r other.txt\n").starts_with("`-r other.txt` is not"));
        assert!(refused("a==1 \\\n  --hash=sha256:0\n").contains("--hash"));
    }
}
