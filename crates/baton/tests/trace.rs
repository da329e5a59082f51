//! `baton trace`: traces of members are merged, judged and exported; what is wrong with a file is told in one sentence.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

fn baton(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_baton")).args(args).output().expect("the binary was built for this test")
}

/// The standard output of a command that ends with this status and writes nothing to standard error.
fn told(status: i32, args: &[&str]) -> String {
    let Output { status: ended, stdout, stderr } = baton(args);
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!((ended.code(), stderr.as_str()), (Some(status), ""), "{args:?}: {stdout}");
    stdout
}

/// The message of a command that ends with status 2.
fn refusal(args: &[&str]) -> String {
    let output = baton(args);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {told}");
    assert!(output.stdout.is_empty() && told.lines().count() == 1, "{args:?}: {told}");
    told.strip_prefix("baton: ").unwrap_or_else(|| panic!("{args:?}: {told}")).trim_end().to_owned()
}

/// A folder with the trace of a simulation, as lines.
struct Run {
    folder: TempDir,
    lines: Vec<Value>,
}

impl Run {
    fn new(command: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("sim");
        let words: Vec<&str> = command.split_whitespace().chain(["--trace", trace.to_str().unwrap()]).collect();
        assert!(baton(&words).status.code().is_some_and(|status| status < 2), "{command}");
        let text = fs::read_to_string(&trace).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        Run { folder, lines }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, lines: &[Value]) -> String {
        let text: Vec<String> = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.path(name), text.concat()).unwrap();
        self.path(name)
    }

    /// Writes the trace of each member. All events are of this resource. The clock of member m is 10 m seconds slow.
    fn split(&self, resource: &str) -> Vec<String> {
        let clients = self.lines[0]["clients"].as_u64().unwrap();
        let part = |member: u64| {
            let mut header = self.lines[0].clone();
            header["unit"] = json!("s");
            let started = 1_000.0 - 10.0 * member as f64;
            header["network"] = json!({ "kind": "tcp", "started_unix_s": started, "member": member });
            let own = |line: &&Value| match line["p"].as_u64() {
                Some(p) => p % clients == member,
                None => line["event"] == "end",
            };
            let named = |line: &Value| {
                let mut line = line.clone();
                if line["event"] == "end" {
                    line["reason"] = json!("shutdown");
                } else {
                    line["resource"] = json!(resource);
                }
                line
            };
            let lines: Vec<Value> = [header].into_iter().chain(self.lines[1..].iter().filter(own).map(named)).collect();
            self.write(&format!("member{member}"), &lines)
        };
        (0..clients).map(part).collect()
    }
}

fn merged(run: &Run, files: &[String]) -> String {
    let output = run.path("merged");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let said = told(0, &[&["trace", "merge"], &files[..], &["-o", &output]].concat());
    assert!(said.starts_with(&format!("{} traces merged: ", files.len())), "{said}");
    output
}

fn lines(path: &str) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn position(lines: &[Value], event: &str) -> usize {
    lines.iter().position(|line| line["event"] == event).unwrap()
}

#[test]
fn traces_of_members_are_merged_judged_exported_and_drawn() {
    let run = Run::new("sim central -n 3 --entries 6");
    let parts = run.split("deploy");
    let merged = merged(&run, &parts);
    let (one, other) = (lines(&merged), &run.lines);
    assert_eq!(one.len(), other.len(), "nothing is lost, and there is one end");
    assert_eq!(one.last().unwrap()["reason"], "shutdown");
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    let to_stdout = told(0, &[&["trace", "merge"], &words[..]].concat());
    assert_eq!(to_stdout, fs::read_to_string(&merged).unwrap());

    let svg = run.path("svg");
    let said = told(0, &["trace", "check", &merged, "--svg", &svg]);
    let rows = ["safety", "liveness", "order", "fence", "pairs", "links"];
    let verdicts: Vec<&str> = said.lines().skip(2).filter(|line| !line.starts_with(' ')).collect();
    assert!(said.starts_with("central, 4 processes: ") && verdicts.len() == rows.len(), "{said}");
    assert!(verdicts.iter().zip(rows).all(|(line, name)| line.starts_with(name)), "{said}");
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
    assert!(fs::read_to_string(&svg).unwrap().contains("central, 4 processes<"));
    let json: Value = serde_json::from_str(&told(0, &["trace", "check", &merged, "--json"])).unwrap();
    assert_eq!(json["held"], true);
    let resource = &json["judgement"]["resources"][0];
    assert_eq!((&resource["resource"], &resource["entries"]), (&json!("deploy"), &json!(6)));

    let log = told(0, &["trace", "shiviz", &merged]);
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[..2], [r"(?<host>\S+) (?<clock>\{.*\}) (?<t>\S+)\n(?<event>.*)", ""]);
    assert!(lines[2].starts_with('P') && lines[2].contains("\":1} "), "{log}");
    told(0, &["trace", "shiviz", &merged, "-o", &run.path("log"), "--resource", "deploy"]);
    assert_eq!(fs::read_to_string(run.path("log")).unwrap(), log);
}

#[test]
fn a_trace_of_the_simulator_is_judged_as_it_is() {
    let good = Run::new("sim lamport -n 3 --entries 6");
    assert!(told(0, &["trace", "check", &good.path("sim")]).contains("\norder     held "));
    let bad = Run::new("sim no-lock -n 3 --entries 6");
    let said = told(1, &["trace", "check", &bad.path("sim")]);
    assert!(said.contains("\nsafety    VIOLATED ") && said.contains(" are in the critical section at once"), "{said}");
    let election = Run::new("sim bully");
    assert!(told(0, &["trace", "check", &election.path("sim")]).contains("\nliveness  held "));
    let counterexample = tempfile::tempdir().unwrap();
    let path = counterexample.path().join("trace");
    let path = path.to_str().unwrap();
    baton(&["check", "ricart-agrawala-time-only", "-n", "2", "--trace", path]);
    assert!(told(1, &["trace", "check", path]).contains("safety    VIOLATED"));
}

#[test]
fn a_violation_names_its_records() {
    let run = Run::new("sim central -n 3 --entries 6");
    let mut lines = run.lines.clone();
    let enters: Vec<usize> = (1..lines.len()).filter(|line| lines[*line]["event"] == "enter").collect();
    lines[enters[3]]["fence"] = json!(1);
    let mutated = run.write("mutated", &lines);
    let json: Value = serde_json::from_str(&told(1, &["trace", "check", &mutated, "--json"])).unwrap();
    let properties = json["judgement"]["resources"][0]["properties"].as_array().unwrap();
    let fence = properties.iter().find(|property| property["property"] == "fence").unwrap();
    assert_eq!((&json["held"], &fence["verdict"]), (&json!(false), &json!("violated")));
    let shown = |line: usize| json!({ "seq": lines[line]["seq"], "t": lines[line]["t"] });
    assert_eq!(fence["events"], json!([shown(enters[2]), shown(enters[3])]));
    // A line may break anywhere between two words.
    let said = told(1, &["trace", "check", &mutated]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("fence VIOLATED")
            && said.contains("order not tested")
            && said.contains(&format!("seq {} at ", lines[enters[3]]["seq"])),
        "{said}"
    );
}

#[test]
fn a_killed_member_is_a_crash_and_its_cut_off_line_is_left_out() {
    let run = Run::new("sim ricart-agrawala -n 3 --entries 9");
    let parts = run.split("deploy");
    let whole = fs::read(&parts[1]).unwrap();
    fs::write(&parts[1], &whole[..whole.len() / 2]).unwrap();
    let output = run.path("merged");
    let words: Vec<&str> = parts.iter().map(String::as_str).collect();
    let Output { status, stderr, .. } = baton(&[&["trace", "merge"], &words[..], &["-o", &output]].concat());
    let warnings = String::from_utf8(stderr).unwrap();
    assert!(status.success() && warnings.contains("member1 has no `end`: its member was killed, or still runs"));
    assert!(warnings.contains("taken as a crash of P1 after line "), "{warnings}");
    let merged = lines(&output);
    let crash = &merged[position(&merged, "crash")];
    assert_eq!((&crash["p"], crash.get("resource")), (&json!(1), None), "a crash is of all resources");
    let said = told(0, &["trace", "check", &output]);
    assert!(said.contains("safety    held") && !said.contains("VIOLATED"), "{said}");
}

#[test]
fn each_resource_is_judged_and_exported_alone() {
    let run = Run::new("sim central -n 3 --entries 3");
    let mut all = vec![run.lines[0].clone()];
    for (number, name) in (0..70).map(|number| (number, format!("lock-{number:02}"))) {
        for line in &run.lines[1..run.lines.len() - 1] {
            let mut line = line.clone();
            line["resource"] = json!(name);
            for id in ["msg", "req"] {
                if let Some(own) = line[id].as_u64() {
                    line[id] = json!(own + 1_000 * number);
                }
            }
            if number != 42 || line["event"] != "exit" {
                all.push(line);
            }
        }
    }
    all.push(run.lines.last().unwrap().clone());
    let trace = run.write("many", &all);
    let said = told(1, &["trace", "check", &trace]);
    assert!(said.lines().nth(2).unwrap().starts_with("lock-42  safety"), "violations come first: {said}");
    assert!(said.contains("VIOLATED"), "{said}");
    assert!(said.ends_with("more, 0 of them VIOLATED; --resource shows one resource, --json all of them\n"), "{said}");
    assert!(told(0, &["trace", "check", &trace, "--resource", "lock-41"]).starts_with("central, 4 processes: "));
    told(1, &["trace", "check", &trace, "--resource", "lock-42"]);
    let several = "the trace has 70 resources; name one of them with --resource: lock-00, ";
    assert!(refusal(&["trace", "shiviz", &trace]).contains(several));
    assert!(refusal(&["trace", "check", &trace, "--svg", &run.path("svg")]).contains(several));
    assert!(!Path::new(&run.path("svg")).exists());
    let unknown = refusal(&["trace", "shiviz", &trace, "--resource", "dance"]);
    assert!(unknown.contains("the trace has no resource `dance`; it has lock-00, "), "{unknown}");
    assert!(told(0, &["trace", "shiviz", &trace, "--resource", "lock-41"]).contains("exit, request 41000"));
}

#[test]
fn traces_that_do_not_belong_together_are_refused() {
    let run = Run::new("sim central -n 3 --entries 3");
    let parts = run.split("deploy");
    let merge = |files: &[&str]| refusal(&[&["trace", "merge"], files].concat());
    let twice = merge(&[&parts[0], &parts[0]]);
    assert!(twice.ends_with("are both traces of member 0; name one trace for each member"), "{twice}");
    let missing = merge(&[&parts[1], &parts[2]]);
    assert!(missing.ends_with("is missing: name its file, too") && missing.contains("the trace of member 0, "));
    let whole = merge(&[&run.path("sim")]);
    assert!(whole.ends_with("is not the trace of one member: its header has no `member` in `network`"), "{whole}");
    let mut other = lines(&parts[1]);
    other[0]["algorithm"] = json!("raymond");
    let other = merge(&[&parts[0], &run.write("other", &other), &parts[2]]);
    assert!(other.contains(" are not of one run: the algorithm is raymond in "), "{other}");
    let one = refusal(&["trace", "check", &parts[1]]);
    assert!(one.ends_with("this trace has only the events of member 1; merge the traces of all members first, with `baton trace merge`"), "{one}");
    let before = fs::read(&parts[0]).unwrap();
    let replaced = merge(&[&parts[0], &parts[1], &parts[2], "-o", &parts[0]]);
    assert!(replaced.contains("would replace the trace ") && fs::read(&parts[0]).unwrap() == before, "{replaced}");
}

#[test]
fn what_is_no_trace_is_told_with_file_and_line() {
    let run = Run::new("sim central -n 3 --entries 3");
    let text = fs::read_to_string(run.path("sim")).unwrap();
    let (header, rest) = text.split_once('\n').unwrap();
    let file = |name: &str, text: &str| {
        let path = PathBuf::from(run.path(name));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let newer = header.replace("\"baton_trace\":1", "\"baton_trace\":2");
    let unknown = header.replace("\"central\"", "\"dance\"");
    let huge = header.replace("\"processes\":4", "\"processes\":99999999999");
    let cases = [
        (file("empty", ""), "the trace is empty; its first line must be a header"),
        (file("svg", "<svg>\n"), "this is not a trace: its first line is not a header ("),
        (file("newer", &newer), "the trace has version 2; this program reads version 1"),
        (file("broken", &format!("{header}\n{{\"seq\":0\n{rest}")), "line 2 of the trace is not an event: "),
        (file("blank", &format!("{header}\n\n{rest}")), "line 2 of the trace is not an event: "),
        (file("nul", &format!("{header}\n\0\0\0\n{rest}")), "line 2 of the trace is not an event: "),
        (
            file("stranger", &format!("{header}\n{{\"seq\":0,\"t\":1.0,\"p\":7,\"event\":\"crash\"}}\n")),
            "line 2 of the trace names P7, and the processes are P0 to P3",
        ),
        (file("huge", &huge), "line 1 of the trace has 99999999999 processes and 3 clients, which cannot be"),
    ];
    for (path, sentence) in &cases {
        for command in [&["trace", "merge"][..], &["trace", "check"], &["trace", "shiviz"]] {
            let refused = refusal(&[command, &[path.as_str()]].concat());
            assert!(refused.starts_with(&format!("{path}: {sentence}")), "{refused}");
        }
    }
    let unknown = file("unknown", &format!("{unknown}\n{rest}"));
    assert!(refusal(&["trace", "check", &unknown]).contains("there is no algorithm `dance`"));
    let none = run.path("none");
    assert!(refusal(&["trace", "check", &none]).starts_with(&format!("cannot read {none}: No such file")));
    assert!(refusal(&["trace", "check", run.folder.path().to_str().unwrap()]).contains("Is a directory"));
    assert!(refusal(&["trace", "merge"]).ends_with("; see `baton trace merge --help`"));
    let target = format!("{none}/log");
    assert!(refusal(&["trace", "shiviz", &run.path("sim"), "-o", &target]).starts_with("cannot write "));
}

#[test]
fn output_that_cannot_be_written_is_status_74() {
    let run = Run::new("sim central -n 3 --entries 3");
    let parts = run.split("deploy");
    let merge: Vec<&str> = ["trace", "merge"].into_iter().chain(parts.iter().map(String::as_str)).collect();
    let sim = run.path("sim");
    for args in [&merge[..], &["trace", "check", &sim], &["trace", "check", &sim, "--json"], &["trace", "shiviz", &sim]]
    {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_baton")).args(args).stdout(full).output().unwrap();
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(74), "{args:?}: {told}");
        assert_eq!(told, "baton: cannot write to standard output: No space left on device (os error 28)\n", "{args:?}");
    }
}
