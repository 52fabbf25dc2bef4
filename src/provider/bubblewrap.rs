//! The wall around a command: how bubblewrap is called.
//!
//! The sandbox's `root` folder is mounted at `/`, writable, so that a new top-level folder is a new folder of the state.
//! What the system owns is mounted over it, and a mount needs a folder to be mounted on: `mount_points` names them. They
//! exist in `root` only while commands run and are empty there, since what is seen in them is in what is mounted over them.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::paths::{HOME, TEMP, View};
use crate::system::disk;

/// Whether a sandbox's commands reach the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Network {
    /// They reach what the host reaches.
    #[default]
    Open,
    /// They reach nothing but themselves.
    Closed,
}

/// The user and group that commands see themselves as; on the host they are the runner's.
const USER: &str = "1000";

/// Returns the top-level folders that must exist in a root for the mounts, and `tmp`, which every root has.
pub(crate) fn mount_points(view: &View) -> Vec<&'static str> {
    view.host
        .system
        .iter()
        .map(|(name, _)| *name)
        .chain(["etc", "proc", "dev", "run", "tmp"])
        .collect()
}

/// Returns the arguments that come before the command itself.
pub(crate) fn arguments(
    view: &View,
    cwd: &str,
    network: Network,
    mounts: &[PathBuf],
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = Vec::with_capacity(64);
    let mut add = |words: &[&OsStr]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    let text = OsStr::new::<str>;
    add(&[
        "--unshare-user",
        "--uid",
        USER,
        "--gid",
        USER,
        "--cap-drop",
        "ALL",
    ]
    .map(text));
    add(&[
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--hostname",
        "sandbox",
    ]
    .map(text));
    add(&["--die-with-parent", "--new-session"].map(text));
    if network == Network::Closed {
        add(&[text("--unshare-net")]);
    }
    add(&[text("--bind"), view.state.as_os_str(), text("/")]);
    for (name, folder) in &view.host.system {
        add(&[
            text("--ro-bind"),
            folder.as_os_str(),
            Path::new("/").join(name).as_os_str(),
        ]);
    }
    add(&[text("--ro-bind"), view.host.etc.as_os_str(), text("/etc")]);
    for name in &view.host.etc_folders {
        let folder = Path::new("/etc").join(name);
        add(&[text("--ro-bind"), folder.as_os_str(), folder.as_os_str()]);
    }
    add(&[
        "--proc",
        "/proc",
        "--remount-ro",
        "/proc",
        "--dev",
        "/dev",
        "--tmpfs",
        "/run",
    ]
    .map(text));
    add(&[text("--bind"), view.temp.as_os_str(), text(TEMP)]);
    add(&[text("--bind"), view.home.as_os_str(), text(HOME)]);
    for folder in mounts {
        add(&[text("--ro-bind"), folder.as_os_str(), folder.as_os_str()]);
    }
    add(&["--chdir", cwd].map(text));
    arguments
}

/// Returns where `bwrap` is, or why it cannot be used; tried once per process.
///
/// The trial builds the wall that commands get, around `true`.
pub(crate) fn find(trial: &View) -> Result<&'static Path, &'static str> {
    static FOUND: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    FOUND
        .get_or_init(|| try_out(trial))
        .as_deref()
        .map_err(String::as_str)
}

fn try_out(trial: &View) -> Result<PathBuf, String> {
    let program = disk::search_path()
        .into_iter()
        .map(|folder| folder.join("bwrap"))
        .find(|program| disk::metadata(program).is_ok_and(|metadata| metadata.is_file()))
        .ok_or("`bwrap` is not on the search path")?;
    let said = Command::new(&program)
        .args(arguments(trial, "/", Network::Open, &[]))
        .args(["--", "/usr/bin/true"])
        .env_clear()
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("`{}` could not be started: {error}", program.display()))?;
    if said.status.success() {
        return Ok(program);
    }
    Err(format!(
        "`{}` could not build a wall: {}",
        program.display(),
        String::from_utf8_lossy(&said.stderr).trim_end()
    ))
}

/// Returns what bubblewrap said, when it and not the command is what failed.
pub(crate) fn complaint(code: i32, stdout: &[u8], stderr: &[u8]) -> Option<String> {
    let said = stderr
        .strip_prefix(b"bwrap: ")
        .filter(|_| code == 1 && stdout.is_empty())?;
    Some(String::from_utf8_lossy(said).trim_end().to_owned())
}

/// Tells whether a variable would act on bubblewrap itself and so must be set behind the wall only.
pub(crate) fn acts_on_loader(name: &str) -> bool {
    name.starts_with("LD_") || name.starts_with("GLIBC_") || name.starts_with("MALLOC_")
}

/// What of the host's `/etc` a sandbox sees: what programs need to run, and nothing of accounts, services or tokens.
const ETC: &[&str] = &[
    "alternatives",
    "ca-certificates.conf",
    "crypto-policies",
    "debian_version",
    "fonts",
    "gai.conf",
    "host.conf",
    "hosts",
    "inputrc",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "login.defs",
    "magic",
    "magic.mime",
    "mime.types",
    "networks",
    "nsswitch.conf",
    "os-release",
    "perl",
    "pki/ca-trust",
    "pki/tls/certs",
    "protocols",
    "resolv.conf",
    "rpc",
    "services",
    "shells",
    "ssl/certs",
    "ssl/openssl.cnf",
    "terminfo",
    "timezone",
];

/// Beginnings of further names in `/etc` that a sandbox sees: the settings of language runtimes.
const ETC_BEGINNINGS: [&str; 2] = ["java-", "python3"];

/// Fills the folder that stands for `/etc` in the sandboxes of a run, and returns the folders of the host's `/etc` that
/// are mounted in it: files are copied, folders are not.
pub(crate) fn make_etc(folder: &Path) -> io::Result<Vec<String>> {
    let etc = Path::new("/etc");
    disk::create_dir_all(folder)?;
    let passwd = format!("sandbox:x:{USER}:{USER}::{HOME}:/bin/bash\n");
    disk::write(&folder.join("passwd"), passwd.as_bytes())?;
    disk::write(
        &folder.join("group"),
        format!("sandbox:x:{USER}:\n").as_bytes(),
    )?;
    disk::write(&folder.join("hostname"), b"sandbox\n")?;
    let names = disk::read_dir(etc).unwrap_or_default();
    let begins = |name: &&str| {
        ETC_BEGINNINGS
            .iter()
            .any(|beginning| name.starts_with(beginning))
    };
    let more = names.iter().filter_map(|name| name.to_str()).filter(begins);
    let mut folders = Vec::new();
    for name in ETC.iter().copied().chain(more) {
        let (from, to) = (etc.join(name), folder.join(name));
        // What is not here, or not for this user, is not in a sandbox either.
        let Ok(metadata) = disk::metadata(&from) else {
            continue;
        };
        if let Some(above) = to.parent() {
            disk::create_dir_all(above)?;
        }
        if metadata.is_dir() {
            disk::create_dir_all(&to)?;
            folders.push(name.to_owned());
        } else if metadata.is_file() {
            copy_file(&from, &to)?;
        }
    }
    Ok(folders)
}

/// Copies a file that can be read; a link stays one where its target is seen in the sandbox too.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    if disk::symlink_metadata(from)?.is_symlink() && disk::canonicalize(from)?.starts_with("/usr") {
        return disk::symlink(&disk::read_link(from)?, to);
    }
    match disk::copy(from, to) {
        Err(error) if error.kind() != io::ErrorKind::PermissionDenied => Err(error),
        _ => Ok(()),
    }
}
