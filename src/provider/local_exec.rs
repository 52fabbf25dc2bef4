//! From a command as a step says it to the child process that runs it.

use std::io;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::bubblewrap;
use super::local::LocalSandbox;
use super::paths::{APP, Last};
use super::process::{self, Job, Serving, Shape};
use super::reap::MARKER;
use super::rewrite::Rewrite;
use crate::step::sandbox::{Exec, Exited, How, Program, SandboxError};
use crate::system::disk::{self, Entry, Kind};

/// The search path of every command.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A command made ready: absolute program, arguments, folder, environment.
struct Ready {
    /// The program as the step wrote it, for errors.
    written: String,
    program: String,
    arguments: Vec<String>,
    cwd: String,
    environment: Vec<(String, String)>,
}

impl LocalSandbox {
    /// Runs a command.
    pub(super) async fn run(&self, exec: Exec) -> Result<Exited, SandboxError> {
        let (job, ready) = self.job(exec)?;
        let exited = process::run(job)
            .await
            .map_err(|error| ready.not_started(error))?;
        if let (Some(_), How::Code(code)) = (self.wall, exited.how)
            && let Some(message) =
                bubblewrap::complaint(code, &exited.stdout.bytes, &exited.stderr.bytes)
        {
            return Err(match message.starts_with("execvp ") {
                true => SandboxError::NotExecutable {
                    program: ready.written,
                    what: "a script whose interpreter is missing",
                },
                false => SandboxError::Isolation {
                    program: ready.written,
                    message,
                },
            });
        }
        Ok(exited)
    }

    /// Starts a program that serves until it is stopped; it ends with this process.
    pub(super) async fn serve(&self, exec: Exec) -> Result<Serving, SandboxError> {
        let (mut job, ready) = self.job(exec)?;
        if self.wall.is_none() {
            // A wall dies with this process; without one the kernel is asked to do the same.
            let setpriv = Path::new("/usr/bin/setpriv");
            if disk::exists(setpriv) {
                let mut command = Command::new(setpriv);
                command.args(["--pdeathsig", "KILL", "--", &ready.program]);
                command.args(&ready.arguments).current_dir(&ready.cwd);
                command.env_clear();
                command.envs(ready.environment.iter().map(|(name, value)| (name, value)));
                job.command = command;
            }
        }
        process::serve(job)
            .await
            .map_err(|error| ready.not_started(error))
    }

    fn job(&self, exec: Exec) -> Result<(Job, Ready), SandboxError> {
        // Without a wall the one mount point is `/tmp`, and making it costs as much as a small command.
        let needs_mount_points = self.wall.is_some()
            || exec.cwd.as_ref().is_some_and(|cwd| cwd.contains("/tmp"))
            || match &exec.program {
                Program::Argv(argv) => argv.iter().any(|word| word.contains("/tmp")),
                Program::Bash(script) => script.contains("/tmp"),
            };
        let ticket = self.activity.enter(needs_mount_points)?;
        let Exec {
            program,
            env,
            cwd,
            stdin,
            timeout,
            keep,
        } = exec;
        let ready = match self.wall {
            Some(_) => self.ready_behind_wall(program, env, cwd)?,
            None => self.ready_without_wall(program, env, cwd)?,
        };
        let (marked, activity) = (self.marked(0), self.activity.clone());
        let job = Job {
            command: self.command(&ready),
            shape: if self.wall.is_some() {
                Shape::Walled
            } else {
                Shape::Group
            },
            stdin,
            timeout,
            keep,
            patience: self.patience,
            cancelled: self.cancel.subscribe(),
            sweep: Box::new(move |since| {
                // Marks do not tell commands apart: those that run beside this one are not to be hit.
                if activity.is_only_one() {
                    super::reap::Marked { since, ..marked }.kill();
                }
            }),
            ticket: Box::new(ticket),
        };
        Ok((job, ready))
    }

    fn command(&self, ready: &Ready) -> Command {
        let Some(wall) = self.wall else {
            let mut command = Command::new(&ready.program);
            command
                .args(&ready.arguments)
                .current_dir(&ready.cwd)
                .env_clear();
            command.envs(ready.environment.iter().map(|(name, value)| (name, value)));
            return command;
        };
        let mut command = Command::new(wall);
        command
            .args(bubblewrap::arguments(
                &self.view,
                &ready.cwd,
                self.spec.network,
                &self.spec.mounts,
            ))
            .env_clear();
        // Arguments can be read by every user of the host, the environment by the runner's only.
        for (name, value) in &ready.environment {
            if bubblewrap::acts_on_loader(name) {
                command.args(["--setenv", name, value]);
            } else {
                command.env(name, value);
            }
        }
        command.args(["--", &ready.program]).args(&ready.arguments);
        command
    }

    fn ready_behind_wall(
        &self,
        program: Program,
        env: Vec<(String, String)>,
        cwd: Option<String>,
    ) -> Result<Ready, SandboxError> {
        let mut argv = words(program)?.into_iter();
        let written = argv.next().ok_or(SandboxError::EmptyCommand)?;
        let cwd = absolute(cwd.as_deref().unwrap_or(APP), APP);
        if !matches!(
            self.view.walk(&cwd, Last::Follow)?.entry,
            Some(Entry {
                kind: Kind::Folder,
                ..
            })
        ) {
            return Err(SandboxError::CwdMissing {
                cwd,
                program: written,
            });
        }
        let environment = self.environment(env)?;
        let look = |path: &str| -> Result<Look, SandboxError> {
            let path_of_host = Path::new(path);
            if self
                .spec
                .mounts
                .iter()
                .any(|mount| path_of_host.starts_with(mount))
            {
                return Ok(look_at_host(path_of_host));
            }
            Ok(match self.view.walk(path, Last::Follow)?.entry {
                None => Look::Nothing,
                Some(Entry {
                    kind: Kind::File,
                    mode,
                    ..
                }) if mode & 0o111 != 0 => Look::Program,
                Some(Entry {
                    kind: Kind::File, ..
                }) => Look::Not(NOT_EXECUTABLE),
                Some(entry) => Look::Not(entry.kind.words()),
            })
        };
        let program = find_program(&written, &cwd, &environment, look)?;
        Ok(Ready {
            written,
            program,
            arguments: argv.collect(),
            cwd,
            environment,
        })
    }

    fn ready_without_wall(
        &self,
        program: Program,
        env: Vec<(String, String)>,
        cwd: Option<String>,
    ) -> Result<Ready, SandboxError> {
        let rewrite = Rewrite::new(&self.view.state, &self.spec.mounts);
        let mut argv = words(program)?;
        // The script of a shell is a script, every other argument is a word.
        let script = match &argv[..] {
            [shell, flag, _, ..] if is_shell(shell) && is_script_flag(flag) => Some(2),
            _ => None,
        };
        for (index, word) in argv.iter_mut().enumerate().skip(1) {
            *word = if Some(index) == script {
                rewrite.script(word)
            } else {
                rewrite.argument(word)
            };
        }
        let mut argv = argv.into_iter();
        let written = argv.next().ok_or(SandboxError::EmptyCommand)?;
        let cwd = absolute(cwd.as_deref().unwrap_or(APP), APP);
        self.view.walk(&cwd, Last::Follow)?;
        let host_cwd = rewrite.argument(&cwd);
        if !disk::metadata(Path::new(&host_cwd)).is_ok_and(|metadata| metadata.is_dir()) {
            return Err(SandboxError::CwdMissing {
                cwd,
                program: written,
            });
        }
        let environment = self.environment(env)?;
        let look = |path: &str| -> Result<Look, SandboxError> {
            Ok(look_at_host(Path::new(&rewrite.argument(path))))
        };
        let program = rewrite.argument(&find_program(&written, &host_cwd, &environment, look)?);
        Ok(Ready {
            written,
            program,
            arguments: argv.collect(),
            cwd: host_cwd,
            environment,
        })
    }

    /// Returns the whole environment of a command: a later value of a name wins, and the mark always.
    fn environment(
        &self,
        env: Vec<(String, String)>,
    ) -> Result<Vec<(String, String)>, SandboxError> {
        env.iter().try_for_each(check_variable)?;
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let first = [
            own("PATH", PATH),
            own("HOME", self.view.home_seen()),
            own("LANG", "C.UTF-8"),
            own("TMPDIR", self.view.temp_seen()),
        ];
        let all = first
            .into_iter()
            .chain(self.spec.env_vars.iter().cloned())
            .chain(env);
        Ok(all.chain([own(MARKER, &self.spec.id)]).collect())
    }
}

const NOT_EXECUTABLE: &str = "a file without the right to be executed";

/// What is where a program is looked for.
enum Look {
    Nothing,
    Program,
    Not(&'static str),
}

/// Tells what is at a path of the host.
fn look_at_host(path: &Path) -> Look {
    use std::os::unix::fs::PermissionsExt;
    match disk::metadata(path) {
        Err(_) => Look::Nothing,
        Ok(metadata) if metadata.is_dir() => Look::Not(Kind::Folder.words()),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => Look::Not(NOT_EXECUTABLE),
        Ok(_) => Look::Program,
    }
}

/// Returns the absolute path of a program: as it is written, or found on the search path of the environment.
fn find_program(
    written: &str,
    cwd: &str,
    environment: &[(String, String)],
    look: impl Fn(&str) -> Result<Look, SandboxError>,
) -> Result<String, SandboxError> {
    let program = written.to_owned();
    if written.contains('/') {
        let path = absolute(written, cwd);
        return match look(&path)? {
            Look::Program => Ok(path),
            Look::Not(what) => Err(SandboxError::NotExecutable { program, what }),
            Look::Nothing => Err(SandboxError::NoSuchProgram {
                program,
                looked_in: path,
            }),
        };
    }
    let folders = environment
        .iter()
        .rev()
        .find(|(name, _)| name == "PATH")
        .map_or(PATH, |(_, value)| value);
    let mut found = None;
    for folder in folders
        .split(':')
        .filter(|folder| !folder.is_empty() && !written.is_empty())
    {
        let path = format!("{}/{written}", absolute(folder, cwd));
        match look(&path)? {
            Look::Program => return Ok(path),
            Look::Not(what) => found = found.or(Some(what)),
            Look::Nothing => {}
        }
    }
    Err(match found {
        Some(what) => SandboxError::NotExecutable { program, what },
        None => SandboxError::NoSuchProgram {
            program,
            looked_in: folders.to_owned(),
        },
    })
}

/// Returns the words of a command; `sudo` is none, since a command has all the rights there are.
fn words(program: Program) -> Result<Vec<String>, SandboxError> {
    let words: Vec<String> = match program {
        Program::Argv(argv) => argv.into_iter().filter(|word| word != "sudo").collect(),
        Program::Bash(script) => vec!["bash".to_owned(), "-c".to_owned(), script],
    };
    match words.iter().position(|word| word.contains('\0')) {
        Some(index) => Err(SandboxError::Nul {
            what: format!("argument {index} of `{}`", words[0].escape_debug()),
        }),
        None => Ok(words),
    }
}

fn absolute(path: &str, base: &str) -> String {
    if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("{base}/{path}")
    }
}

fn is_shell(program: &str) -> bool {
    matches!(
        PathBuf::from(program)
            .file_name()
            .and_then(|name| name.to_str()),
        Some("bash" | "sh")
    )
}

fn is_script_flag(flag: &str) -> bool {
    flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c')
}

pub(super) fn check_variable((name, value): &(String, String)) -> Result<(), SandboxError> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(SandboxError::EnvName {
            name: name.escape_debug().to_string(),
        });
    }
    if value.contains('\0') {
        return Err(SandboxError::Nul {
            what: format!("the value of `{name}`"),
        });
    }
    Ok(())
}

impl Ready {
    /// Returns why a command could not be started.
    fn not_started(&self, error: io::Error) -> SandboxError {
        use rustix::io::Errno;
        let program = self.written.clone();
        match Errno::from_io_error(&error) {
            Some(Errno::TOOBIG) => {
                let texts = self.arguments.iter().map(|text| text.len() + 1);
                let variables = self
                    .environment
                    .iter()
                    .map(|(name, value)| name.len() + value.len() + 2);
                SandboxError::TooManyArguments {
                    program,
                    bytes: texts.chain(variables).sum(),
                }
            }
            Some(Errno::NOEXEC) => SandboxError::NotExecutable {
                program,
                what: "neither a program nor a script with a `#!` line",
            },
            Some(Errno::NOENT) => SandboxError::NotExecutable {
                program,
                what: "a script whose interpreter is missing",
            },
            Some(Errno::ACCESS) => SandboxError::NotExecutable {
                program,
                what: "not to be executed by this user",
            },
            _ => SandboxError::Io {
                what: format!("cannot start `{program}`"),
                source: error,
            },
        }
    }
}
