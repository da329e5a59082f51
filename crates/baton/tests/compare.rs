//! `baton compare`: the output that other tools read.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn baton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton")).args(args).output().expect("the binary was built for this test")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(args: &[&str]) -> Value {
    let output = baton(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

#[test]
fn rows_have_the_fields_that_tools_read() {
    let compared = json(&["compare", "-n", "4,7", "--json"]);
    let rows = compared["rows"].as_array().unwrap();
    let fields = [
        "algorithm",
        "variant",
        "n",
        "load",
        "messages_per_entry",
        "expected",
        "expected_kind",
        "client_delay_mean",
        "sync_delay_mean",
        "bytes_per_entry",
        "messages_per_process",
        "theory",
        "properties",
        "agrees",
    ];
    for row in rows {
        for field in fields {
            assert!(row.get(field).is_some(), "{field} is missing in {row}");
        }
        for property in ["safety", "liveness", "order", "fence"] {
            assert!(row["properties"][property].is_string(), "{property} is missing in {row}");
        }
    }
    let of = |name: &str| rows.iter().filter(|row| row["algorithm"] == name).count();
    assert_eq!(of("central"), 6, "two sizes, three loads");
    assert_eq!(of("voting"), 18, "two variants of their own");
    assert_eq!(of("ricart-agrawala-time-only"), 0, "what is broken is not compared");
    assert_eq!(of("bully"), 0, "elections have their own rows");
    assert!(rows.iter().any(|row| row["load"] == "solo-random"), "taking turns flatters rings and chains");

    let busiest = |name: &str| {
        let of = |row: &&Value| row["algorithm"] == name && row["n"] == 7 && row["load"] == "all";
        rows.iter().find(of).unwrap()["messages_per_process"]["max"].as_f64().unwrap()
    };
    assert_eq!((busiest("central"), busiest("token-ring")), (3.0, 2.0 / 7.0), "the coordinator is the bottleneck");

    let elections = compared["elections"].as_array().unwrap();
    for row in elections {
        let fields = ["algorithm", "variant", "n", "starts", "runs", "messages", "time", "expected_messages", "agrees"];
        for field in fields {
            assert!(row.get(field).is_some(), "{field} is missing in {row}");
        }
        for part in ["best", "mean", "worst"] {
            assert!(row["messages"][part].is_f64() && row["time"][part].is_f64(), "{row}");
        }
    }
    let bully = elections.iter().find(|row| row["algorithm"] == "bully" && row["n"] == 7).unwrap();
    assert_eq!((&bully["messages"]["best"], &bully["messages"]["worst"]), (&6.0.into(), &41.0.into()), "{bully}");
}

#[test]
fn what_is_exact_comes_out_exactly() {
    let compared = json(&["compare", "-n", "2,5,9,13", "--loads", "solo,all", "--json"]);
    let rows = compared["rows"].as_array().unwrap();
    let mut exact = 0;
    for row in rows {
        assert_eq!(row["agrees"], true, "{row}");
        if row["expected_kind"] == "exact" {
            let (measured, expected) = (row["messages_per_entry"].as_f64().unwrap(), row["expected"].as_f64().unwrap());
            assert!((measured - expected).abs() < 1e-9 * expected, "{row}");
            exact += 1;
        }
    }
    assert!(exact * 2 > rows.len(), "most of theory is exact");
}

#[test]
fn means_settle_within_their_tolerance() {
    let compared = json(&["compare", "-n", "5,12", "--loads", "solo-random", "--json"]);
    for row in compared["rows"].as_array().unwrap() {
        assert_eq!(row["agrees"], true, "{row}");
        assert_eq!(row["load"], "solo-random");
    }
}

#[test]
fn the_table_is_for_people() {
    let output = baton(&["compare", "-n", "4", "--loads", "all"]);
    assert_eq!(output.status.code(), Some(0));
    let table = text(&output.stdout);
    assert!(table.starts_with("ALGORITHM"), "{table}");
    assert!(table.contains("6 = 2(n-1)"), "{table}");
    let words = table.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches("none differs from theory, and every promise held.").count(), 2, "{table}");
    assert!(words.ends_with("changes of views: none differs from theory."), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    assert!(output.stderr.is_empty(), "no progress but on a terminal");
}

#[test]
fn the_page_needs_nothing_but_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("compare.html");
    let output = baton(&["compare", "-n", "4,9", "--html", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = fs::read_to_string(&path).unwrap();
    assert!(page.starts_with("<!doctype html>"));
    assert_eq!(page.matches("<svg").count(), 11);
    assert!(page.contains("The busiest process"));
    let at = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text} is missing"));
    assert!(at("Messages of an election") < at("<h2>All runs</h2>"), "nobody looks for plots below hundreds of rows");
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    for outside in ["http:", "https:", "src=", "<link", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "the page refers to {outside}");
    }
    for broken in ["NaN", "inf"] {
        assert!(!page.contains(&format!("\"{broken}")) && !page.contains(&format!(",{broken}")), "{broken} in a plot");
    }
}

#[test]
fn bad_input_is_told_in_one_sentence() {
    let cases: [(&[&str], &str); 9] = [
        (&["-n", "0"], "a group of 0 is too small; it takes at least 2 processes"),
        (&["-n", "4,1"], "a group of 1 is too small; it takes at least 2 processes"),
        (&["-n", "x"], "`x` is not a number of processes; give numbers from 2 to 1000, such as 4,9,25"),
        (&["-n", ""], "`` is not a number of processes"),
        (&["-n", "1000000"], "1000000 processes take too long to compare; at most 1000"),
        (&["--loads", "y"], "there is no load `y`; there are solo, solo-random, all, random"),
        (&["-n", "4,9,4"], "`4` is given twice; give each value once"),
        (&["--loads", "all,solo, all"], "`all` is given twice; give each value once"),
        (&["--html", "no/such/folder/page.html"], "cannot write no/such/folder/page.html: "),
    ];
    for (args, sentence) in cases {
        let output = baton(&[&["compare"], args].concat());
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {complaint}");
        assert!(complaint.contains(sentence), "{args:?}: {complaint}");
        assert!(output.stdout.is_empty());
        assert_eq!(complaint.lines().filter(|line| !line.is_empty()).count(), 1, "{args:?}: {complaint}");
    }
}

#[test]
fn a_run_tells_what_theory_says_of_it() {
    let report = json(&["sim", "ricart-agrawala", "-n", "10", "--json"]);
    let theory = &report["theory"]["messages_per_entry"];
    assert_eq!(
        (&theory["formula"], &theory["value"], &theory["kind"]),
        (&"2(n-1)".into(), &18.0.into(), &"exact".into())
    );
    assert_eq!(report["messages_per_entry"], theory["value"]);

    // With faults, theory expects nothing.
    let report = json(&["sim", "central", "--fault", "pause 0 @ 5 for 3", "--json"]);
    assert!(report["theory"]["messages_per_entry"].is_null());

    let report = json(&["sim", "bully", "-n", "6", "--json"]);
    assert_eq!(report["theory"]["messages"]["value"], 29.0);
    assert_eq!(report["messages"], 29);

    let shown = text(&baton(&["sim", "suzuki-kasami", "-n", "7"]).stdout);
    assert!(shown.contains("7.000 messages (in theory 7 = n)"), "{shown}");
}
