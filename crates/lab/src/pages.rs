//! `/api/algorithms/NAME`: the page of docs/algorithms as HTML, a run to watch, and a way to break the algorithm.

use baton_protocol::registry::{self, Family};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};
use rust_embed::RustEmbed;
use serde::Serialize;
use serde_json::{Value, json};

use crate::about::Story;
use crate::challenges::challenges;
use crate::{Refusal, about};

#[derive(RustEmbed)]
#[folder = "../../docs/algorithms"]
struct Docs;

#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    pub name: &'static str,
    pub html: String,
    /// A run to watch.
    pub demo: Value,
    /// None if the lab has no prepared way to break it.
    pub breaks: Option<Breaks>,
}

/// A way to break an algorithm.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Breaks {
    Challenge { id: &'static str, title: &'static str },
    Scenario { name: &'static str, title: String, spec: Value },
}

pub fn page(name: &str) -> Result<Answer, Refusal> {
    let about = registry::find(name).map_err(Refusal::not_found)?;
    let file = Docs::get(&format!("{}.md", about.name)).ok_or_else(|| Refusal::fault("the page is missing"))?;
    let text = String::from_utf8_lossy(&file.data);
    let stories = &about::about().scenarios;
    Ok(Answer {
        name: about.name,
        html: to_html(&text),
        demo: demo(about.name, about.family, about.broken.is_some(), stories),
        breaks: breaks(about.name, about.broken.is_some(), stories),
    })
}

/// A short run. For an algorithm that is broken on purpose: one that shows how, if there is a scenario.
fn demo(name: &str, family: Family, is_broken: bool, stories: &[Story]) -> Value {
    let shows_it = stories.iter().find(|story| is_broken && story.spec["algorithm"] == name);
    if let Some(story) = shows_it {
        return story.spec.clone();
    }
    let n = match name {
        _ if name.starts_with("maekawa") || name == "generalized" => 7,
        _ if name.starts_with("raymond") => 6,
        _ => 4,
    };
    match family {
        Family::Mutex => json!({"algorithm": name, "n": n, "entries": 3 * n, "delay": "uniform:0.5,1.5", "seed": 1}),
        Family::Election => json!({"algorithm": name, "n": n, "load": "solo", "seed": 1}),
        Family::Detector => json!({"algorithm": name, "n": 3, "entries": 2, "seed": 1}),
        Family::Append => json!({"algorithm": name, "n": 3, "entries": 9, "seed": 1}),
    }
}

fn breaks(name: &str, is_broken: bool, stories: &[Story]) -> Option<Breaks> {
    let challenge = challenges().into_iter().find(|challenge| challenge.algorithm == name);
    let challenge = challenge.map(|challenge| Breaks::Challenge { id: challenge.id, title: challenge.title });
    challenge.or_else(|| {
        let breaks_it = |story: &&Story| story.spec["algorithm"] == name && (story.violates || is_broken);
        let story = stories.iter().find(breaks_it)?;
        Some(Breaks::Scenario { name: story.name, title: story.title.clone(), spec: story.spec.clone() })
    })
}

/// HTML without anything that a page of our own would not write: HTML in the text is shown as text, links lead to pages
/// of the lab or nowhere, and pictures are left out.
fn to_html(markdown: &str) -> String {
    let mut links = Vec::new();
    let events = Parser::new_ext(markdown, Options::ENABLE_TABLES).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) if is_comment(&text) => None,
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
            let target = lab_link(&dest_url);
            links.push(target.is_some());
            target.map(|target| Event::Start(Tag::Link { link_type, dest_url: target.into(), title, id }))
        }
        Event::End(TagEnd::Link) => links.pop().unwrap_or(false).then_some(Event::End(TagEnd::Link)),
        Event::Start(Tag::Image { .. }) | Event::End(TagEnd::Image) => None,
        other => Some(other),
    });
    let mut text = String::new();
    html::push_html(&mut text, events);
    text
}

/// Whether a piece of HTML is a comment of one line, which is for those who write the page.
fn is_comment(html: &str) -> bool {
    let html = html.trim();
    html.starts_with("<!--") && html.ends_with("-->")
}

/// The address in the lab of a link between pages. None if it leads elsewhere.
fn lab_link(target: &str) -> Option<String> {
    let page = target.split('#').next().unwrap_or_default();
    let name = page.strip_suffix(".md")?;
    let name = name.strip_prefix("algorithms/").or_else(|| name.strip_prefix("../algorithms/")).unwrap_or(name);
    registry::find(name).ok().map(|about| format!("#/algorithm/{}", about.name))
}

#[cfg(test)]
mod tests {
    use baton_protocol::registry::ALGORITHMS;

    use super::*;
    use crate::jobs::Stop;
    use crate::run;

    #[test]
    fn every_algorithm_has_a_page_and_a_run_to_watch() {
        for about in ALGORITHMS {
            let page = page(about.name).unwrap();
            assert!(page.html.starts_with("<h1>"), "{}", about.name);
            assert!(!page.html.contains("&lt;!--"), "{}: a comment is shown", about.name);
            assert!(!page.html.contains(".md\""), "{}: a link leads out of the lab", about.name);
            let ran = run::run(&serde_json::from_value(page.demo).unwrap(), &Stop::default());
            let records = ran.unwrap_or_else(|why| panic!("{}: {}", about.name, why.why)).total;
            assert!((5..20_000).contains(&records), "{}: {records} records", about.name);
        }
    }

    #[test]
    fn what_is_broken_can_be_broken() {
        for about in ALGORITHMS.iter().filter(|about| about.broken.is_some()) {
            let page = page(about.name).unwrap();
            assert!(page.breaks.is_some(), "{}", about.name);
        }
        assert!(matches!(page("lamport").unwrap().breaks, Some(Breaks::Challenge { id: "lamport-unordered", .. })));
    }

    #[test]
    fn html_in_a_page_is_text_and_links_stay_in_the_lab() {
        let html = to_html(
            "<script>x</script>\n\na <b>b</b> [m](maekawa.md#costs) [c](../checked.md) [j](javascript:x) ![i](x.png)",
        );
        assert!(!html.contains("<script>") && !html.contains("<b>") && !html.contains("<img"), "{html}");
        assert!(
            html.contains("&lt;script&gt;") && html.contains(r##"<a href="#/algorithm/maekawa">m</a> c j i"##),
            "{html}"
        );
    }

    #[test]
    fn an_unknown_page_is_not_found() {
        let refused = page("../../etc/passwd").unwrap_err();
        assert_eq!(refused.status, axum::http::StatusCode::NOT_FOUND);
    }
}
