//! Which events matter, and which folders must be watched to get them.
//!
//! Nothing is matched by pattern: a path matters where a key or a fault depends on it, whatever `.gitignore` says of it, and
//! no other does. What is part of no folder's content, such as the swap file of an editor, passes unseen.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use crate::session::{WatchSet, is_leaving};
use crate::system::{FileKind, System};

/// The longest chain of links that is followed.
const MAX_LINKS: usize = 40;

/// Which events matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    set: WatchSet,
    /// Where links on the way to what matters lead.
    led: BTreeSet<PathBuf>,
    /// For a path that a link leads to: the link.
    aliases: BTreeMap<PathBuf, PathBuf>,
}

impl Scope {
    /// Returns the scope of a set, as the links lead now.
    pub fn new(set: WatchSet, system: &dyn System) -> Self {
        let mut scope = Scope::default();
        for path in set.files.iter().chain(&set.folders).chain(&set.missing) {
            scope.follow(path, system);
        }
        scope.set = set;
        scope
    }

    /// Returns the set.
    pub fn set(&self) -> &WatchSet {
        &self.set
    }

    /// Notes where a link leads, link by link.
    fn follow(&mut self, path: &Path, system: &dyn System) {
        let mut at = path.to_owned();
        for _ in 0..MAX_LINKS {
            let found = system.link_metadata(&at);
            if !found.is_ok_and(|found| found.kind == FileKind::Link) {
                return;
            }
            let (Ok(target), Some(parent)) = (system.read_link(&at), at.parent()) else {
                return;
            };
            let target = parent.join(target);
            let (Some(above), Some(name)) = (target.parent(), target.file_name()) else {
                return;
            };
            at = match system.canonical(above) {
                Ok(above) => above.join(name),
                Err(_) => target.clone(),
            };
            self.aliases.insert(at.clone(), path.to_owned());
            self.led.insert(at.clone());
        }
    }

    /// Every path that matters, in four parts.
    fn parts(&self) -> [&BTreeSet<PathBuf>; 4] {
        let WatchSet {
            files,
            folders,
            missing,
            ..
        } = &self.set;
        [files, folders, missing, &self.led]
    }

    /// Returns every path that matters; some more than once.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.parts().into_iter().flatten()
    }

    /// Returns the path that what happened at a path is about; `None` where it does not matter.
    pub fn concern(&self, path: &Path) -> Option<PathBuf> {
        if let Some(link) = self.aliases.get(path) {
            return Some(link.clone());
        }
        let is_named = self.parts().iter().any(|part| part.contains(path));
        if !is_named {
            let is_own = self.set.own.iter().any(|own| path.starts_with(own));
            let is_of_git = path.iter().any(|name| name == ".git");
            if is_own
                || is_of_git
                || path
                    .file_name()
                    .is_some_and(|name| name.to_str().is_some_and(is_leaving))
            {
                return None;
            }
        }
        let is_entry = path
            .parent()
            .is_some_and(|parent| self.set.folders.contains(parent));
        (is_named || is_entry || self.holds_some(path)).then(|| path.to_owned())
    }

    /// Returns whether a path that matters is below this one.
    fn holds_some(&self, path: &Path) -> bool {
        self.parts().iter().any(|part| {
            let mut from = part.range::<Path, _>((Bound::Included(path), Bound::Unbounded));
            from.next().is_some_and(|next| next.starts_with(path))
        })
    }

    /// Returns the folders that must be watched: those in which something that matters is or may come, and those above them
    /// up to a top.
    pub fn folders(&self, tops: &[PathBuf], system: &dyn System) -> BTreeSet<PathBuf> {
        let is_folder = |path: &Path| {
            let found = system.metadata(path);
            found.is_ok_and(|found| found.kind == FileKind::Folder)
        };
        let mut folders = BTreeSet::new();
        let parents = self.paths().filter_map(|path| path.parent());
        let wanted: BTreeSet<&Path> = parents
            .chain(self.set.folders.iter().map(PathBuf::as_path))
            .collect();
        for folder in wanted {
            let top = tops.iter().find(|top| folder.starts_with(top));
            let mut is_above = false;
            for above in folder.ancestors() {
                // Above the top only what stands for a folder that is not there.
                let is_inside = top.is_some_and(|top| above.starts_with(top));
                if is_above && !is_inside {
                    break;
                }
                if folders.contains(above) {
                    break;
                }
                if is_folder(above) {
                    folders.insert(above.to_owned());
                    is_above = true;
                }
            }
        }
        folders
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::MemorySystem;

    fn paths(names: &[&str]) -> BTreeSet<PathBuf> {
        names.iter().map(PathBuf::from).collect()
    }

    fn scope() -> Scope {
        let set = WatchSet {
            files: paths(&[
                "/w/tasks/a.json",
                "/w/artifacts/x/.odd.swp",
                "/w/lib/.git/config",
            ]),
            folders: paths(&["/w", "/w/tasks", "/w/artifacts/x"]),
            missing: paths(&["/w/envs"]),
            own: vec!["/w/.aebuild".into()],
            ..WatchSet::default()
        };
        Scope::new(set, &MemorySystem::new())
    }

    #[test]
    fn a_path_matters_where_a_key_depends_on_it_and_nowhere_else() {
        let scope = scope();
        for path in [
            "/w/tasks/a.json",
            // It may be a task.
            "/w/tasks/b.json",
            "/w/envs",
            // With it goes what is below.
            "/w/artifacts",
            "/w/artifacts/x/new",
        ] {
            assert_eq!(scope.concern(path.as_ref()), Some(path.into()), "{path}");
        }
        for path in [
            "/w/tasks/deep/b.json",
            "/w/artifacts/y/new",
            "/w/artifactsx/x",
            "/elsewhere",
            "/w/.aebuild/runs/1/run.json",
            "/w/.aebuild",
            "/w/.git",
            "/w/.git/index.lock",
        ] {
            assert_eq!(scope.concern(path.as_ref()), None, "{path}");
        }
    }

    #[test]
    fn what_editors_leave_passes_unseen_unless_a_key_depends_on_it() {
        let scope = scope();
        for name in [
            ".#a.json",
            "#a.json#",
            ".a.json.swp",
            ".a.json.swx",
            "a.json___jb_tmp___",
            "a.json___jb_old___",
        ] {
            assert_eq!(
                scope.concern(&Path::new("/w/tasks").join(name)),
                None,
                "{name}"
            );
        }
        for path in [
            "/w/artifacts/x/.odd.swp",
            "/w/lib/.git/config",
            // These may be meant.
            "/w/artifacts/x/4913",
            "/w/artifacts/x/a~",
        ] {
            assert!(scope.concern(path.as_ref()).is_some(), "{path}");
        }
    }
}
