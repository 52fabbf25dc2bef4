//! The page of each code: what it means, an input that shows it, and how to mend it.
//!
//! The pages are those of the examples, `tasks/errors/<code>/README.md`, kept in one file beside this one so that they
//! are there in a program that was installed. A test holds the two together.

use std::sync::LazyLock;

/// All pages, each after a line that names its code.
const PAGES: &str = include_str!("pages.md");

/// What stands before the code on the line before a page.
const MARK: &str = "<!-- page ";

/// The page of a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    code: &'static str,
    text: &'static str,
}

static ALL: LazyLock<Vec<Page>> = LazyLock::new(|| {
    let mut pages: Vec<Page> = Vec::new();
    let mut rest = PAGES;
    while let Some(at) = rest.find(MARK) {
        let after = &rest[at + MARK.len()..];
        let Some((code, after)) = after.split_once(" -->\n") else {
            break;
        };
        let end = after.find(MARK).unwrap_or(after.len());
        let text = after[..end].trim_matches('\n');
        pages.push(Page { code, text });
        rest = &after[end..];
    }
    pages.sort_by_key(|page| page.code);
    pages
});

/// Returns all pages by code.
pub fn pages() -> &'static [Page] {
    &ALL
}

/// Returns the page of a code.
pub fn page(code: &str) -> Option<Page> {
    let at = ALL.binary_search_by_key(&code, |page| page.code).ok()?;
    Some(ALL[at])
}

impl Page {
    /// Returns the code.
    pub fn code(self) -> &'static str {
        self.code
    }

    /// Returns the page as Markdown, without its title.
    pub fn text(self) -> &'static str {
        match self.text.split_once('\n') {
            Some((title, rest)) if title.starts_with("# ") => rest.trim_start_matches('\n'),
            _ => self.text,
        }
    }

    /// Returns the first paragraph, which says what the code means.
    pub fn lead(self) -> &'static str {
        let text = self.text();
        let end = text.find("\n\n").unwrap_or(text.len());
        &text[..end]
    }
}

/// Returns the file of all pages, made of the code and the text of each.
pub fn joined<'t>(pages: impl IntoIterator<Item = (&'t str, &'t str)>) -> String {
    let mut out = String::new();
    for (code, text) in pages {
        let text = text.trim_matches('\n');
        out.push_str(&format!("{MARK}{code} -->\n{text}\n\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_its_code_and_says_what_it_means_first() {
        let page = page("unknown-name").expect("it is there");
        assert_eq!(page.code(), "unknown-name");
        assert!(page.lead().starts_with("A step looks up"));
        assert!(
            page.text()
                .contains("$ aebuild check tasks/errors/unknown-name")
        );
        assert!(pages().iter().all(|page| !page.lead().is_empty()));
        assert_eq!(super::page("no-such-code"), None);
    }
}
