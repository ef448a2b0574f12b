//! The examples for Kubernetes and systemd: a server that is started with exactly what they say,
//! and times that fit together.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Connection, Process, eventually, free_address, get, program};
use crate::layers::root;

/// How long a server may take for something.
const PATIENCE: Duration = Duration::from_secs(30);

const PAGE: &str = "docs/behind-a-balancer.md";

/// The block of the page that begins with this line.
fn block(first: &str) -> String {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let (_, rest) = page.split_once(&format!("\n{first}\n")).expect("the block is there");
    rest.split("\n```").next().unwrap().to_owned()
}

/// A text of YAML, as Python reads it.
fn yaml(text: &str) -> Value {
    let script = "import json, sys, yaml; print(json.dumps(yaml.safe_load(sys.stdin)))";
    // Debian's own: its packages are not those of another Python.
    let mut python = Command::new("/usr/bin/python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    python.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    assert!(output.status.success(), "python3-yaml is missing, or this is no YAML: {text}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Seconds of a time as configurations write it, `30` or `30s`.
fn seconds(text: &str) -> u64 {
    text.trim_end_matches('s').parse().unwrap_or_else(|_| panic!("{text} is no time"))
}

/// A container of the example, and a server that runs as it says.
struct Pod {
    container: Value,
    grace: u64,
    variables: BTreeMap<String, String>,
    /// The addresses that stand for the container's ports.
    ports: BTreeMap<u64, SocketAddr>,
}

impl Pod {
    fn read() -> Pod {
        let deployment = yaml(&block("```yaml file=deployment.yaml"));
        let spec = &deployment["spec"];
        let labels = &spec["template"]["metadata"]["labels"];
        assert_eq!(spec["selector"]["matchLabels"], *labels, "the deployment finds its pods");
        let spec = &spec["template"]["spec"];
        let container = spec["containers"][0].clone();
        let list = |name: &str| container[name].as_array().expect("a list").clone();
        let ports = list("ports").into_iter();
        let ports: BTreeMap<_, _> = ports
            .map(|port| (port["containerPort"].as_u64().expect("a port"), free_address()))
            .collect();
        let variables = list("env").into_iter().map(|entry| {
            let name = entry["name"].as_str().expect("a name").to_owned();
            // Of the cluster's secrets.
            let secret = entry["valueFrom"]["secretKeyRef"]["key"].as_str();
            let secret = secret.map(|key| format!("{key}-0123456789abcdef0123456789"));
            let value = entry["value"].as_str().map(str::to_owned).or(secret);
            (name, value.expect("a value"))
        });
        Pod {
            grace: spec["terminationGracePeriodSeconds"].as_u64().expect("a time"),
            variables: variables.collect(),
            container,
            ports,
        }
    }

    /// The variables, with the addresses in the place of the ports.
    fn environment(&self) -> Vec<(String, String)> {
        let with_ports = |(name, value): (&String, &String)| {
            let value = match value.strip_prefix(':') {
                None => value.clone(),
                Some(port) => {
                    let port = port.parse().unwrap_or_else(|_| panic!("{name}: {value}"));
                    let stands = self.ports.get(&port);
                    let stands = stands.unwrap_or_else(|| panic!("{name}: {port} is no port"));
                    format!(":{}", stands.port())
                }
            };
            (name.clone(), value)
        };
        self.variables.iter().map(with_ports).collect()
    }

    /// Where a probe looks.
    fn probe(&self, name: &str) -> (SocketAddr, String) {
        let get = &self.container[name]["httpGet"];
        let ports = self.container["ports"].as_array().unwrap();
        let port = ports.iter().find(|port| port["name"] == get["port"]);
        let port = port.unwrap_or_else(|| panic!("{name}: {get} has no port of the container"));
        let address = self.ports[&port["containerPort"].as_u64().unwrap()];
        (address, get["path"].as_str().expect("a path").to_owned())
    }

    /// What a probe gets. The kubelet asks by the address of the pod, without a token.
    fn status(&self, name: &str) -> u16 {
        let (address, path) = self.probe(name);
        let request = get(&path).header("Host", &format!("10.1.2.3:{}", address.port()));
        let request = request.header("User-Agent", "kube-probe/1.30");
        let Ok(stream) = std::net::TcpStream::connect(address) else { return 0 };
        drop(stream);
        Connection::open(address).exchange(&request).status()
    }

    fn time(&self, variable: &str) -> u64 {
        seconds(self.variables.get(variable).map_or("0s", String::as_str))
    }
}

const PROBES: [&str; 3] = ["readinessProbe", "livenessProbe", "startupProbe"];

#[test]
fn a_pod_of_kubernetes_is_ready_and_stops_in_time() {
    let pod = Pod::read();
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("shop")).unwrap();
    fs::write(place.path().join("shop/index.php"), "<?php echo 'the shop';").unwrap();
    let (site, log) = (place.path().join("shop"), place.path().join("log"));
    let arguments: Vec<String> = pod.container["args"]
        .as_array()
        .expect("arguments")
        .iter()
        .map(|word| word.as_str().expect("a word").replace("/srv/shop", site.to_str().unwrap()))
        .collect();
    let mut server = Process::start(&program(), &arguments, &pod.environment(), &log);
    let said = || fs::read_to_string(&log).unwrap_or_default();
    for probe in PROBES {
        let good = eventually(PATIENCE, || (pod.status(probe) == 200).then_some(()));
        assert!(good.is_some(), "{probe}: {}", said());
    }
    let http = pod.container["ports"][0]["containerPort"].as_u64().unwrap();
    let page = || Connection::open(pod.ports[&http]).exchange(&get("/"));
    assert_eq!(page().expect(200).text(), "the shop");
    // The token is wanted for all else.
    let (admin, _) = pod.probe("readinessProbe");
    let status = |fields: &[(&str, &str)]| {
        let request = get("/metrics");
        let fields = fields.iter();
        let request = fields.fold(request, |request, (name, value)| request.header(name, value));
        Connection::open(admin).exchange(&request).status()
    };
    let token = format!("Bearer {}", pod.variables["TOKAMAK_ADMIN_TOKEN"]);
    assert_eq!((status(&[]), status(&[("Authorization", &token)])), (401, 200));

    server.signal("TERM");
    let gone = eventually(PATIENCE, || (pod.status("readinessProbe") == 503).then_some(()));
    assert!(gone.is_some(), "{}", said());
    let delay = pod.time("TOKAMAK_TIMEOUTS_DRAIN_DELAY");
    assert!(said().contains(&format!("stopping in {delay}.0 s")), "{}", said());
    assert_eq!(pod.status("livenessProbe"), 200, "it is not killed for that");
    assert_eq!(page().expect(200).text(), "the shop", "it serves until it is known to go");
    server.signal("TERM");
    let status = server.wait(PATIENCE).expect("it ends");
    assert!(status.success(), "{status}: {}", said());
}

#[test]
fn the_times_of_a_pod_fit_together() {
    let pod = Pod::read();
    let before = &pod.container["lifecycle"]["preStop"]["sleep"]["seconds"];
    let delay = pod.time("TOKAMAK_TIMEOUTS_DRAIN_DELAY");
    let drain = pod.time("TOKAMAK_TIMEOUTS_DRAIN");
    assert!(delay > 0 && drain > 0, "{:?}", pod.variables);
    let needed = before.as_u64().unwrap_or(0) + delay + drain;
    assert!(pod.grace > needed, "killed after {} s, and it needs {needed} s", pod.grace);
    let readiness = &pod.container["readinessProbe"];
    let number = |name: &str| readiness[name].as_u64().expect("a number");
    let noticed = number("periodSeconds") * number("failureThreshold");
    assert!(delay > noticed, "readiness is noticed after {noticed} s, the delay is {delay} s");
}

/// The times of the unit, and what systemd itself says of its files.
#[test]
fn the_units_of_systemd_are_good() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path();
    let unit = fs::read_to_string(root().join("packaging/tokamak.service")).unwrap();
    let socket = fs::read_to_string(root().join("packaging/tokamak.socket")).unwrap();
    let drop_in = block("```ini");
    let of = |text: &str, key: &str| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&format!("{key}=")));
        lines.next().unwrap_or_else(|| panic!("no {key} in {text}")).to_owned()
    };
    // The default of `timeouts.drain`, with the delay of the page and the example's time to drain.
    let stop = seconds(&of(&unit, "TimeoutStopSec"));
    let example = block("[timeouts]");
    let time = |key: &str| {
        let key = format!("{key} = \"");
        let mut lines = example.lines().filter_map(|line| line.strip_prefix(&key));
        seconds(lines.next().expect("a time").trim_end_matches('"'))
    };
    let needed = time("drain_delay") + time("drain");
    assert!(stop > needed, "killed after {stop} s, and the page's example needs {needed} s");
    assert!(seconds(&of(&drop_in, "TimeoutStopSec")) > stop, "the page raises it");
    let settings = fs::read_to_string(root().join("packaging/tokamak.toml")).unwrap();
    let listen = format!("listen = \"{}\"", of(&socket, "ListenStream"));
    assert!(settings.contains(&listen), "the socket is the one of the configuration: {listen}");

    let own = program().display().to_string();
    fs::write(folder.join("tokamak.service"), unit.replace("/usr/local/bin/tokamak", &own))
        .unwrap();
    fs::write(folder.join("tokamak.socket"), socket).unwrap();
    fs::create_dir(folder.join("tokamak.service.d")).unwrap();
    fs::write(folder.join("tokamak.service.d/stop.conf"), drop_in).unwrap();
    let Ok(output) = Command::new("systemd-analyze")
        .args(["verify", "--man=no"])
        .args([folder.join("tokamak.service"), folder.join("tokamak.socket")])
        .env("SYSTEMD_UNIT_PATH", format!("{}:", folder.display()))
        .output()
    else {
        return println!("not tested: systemd-analyze is missing (Debian's package systemd)");
    };
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    // What it says of other units is not ours; what it ignores of these, it does with status 0.
    let of_ours: Vec<_> = said.lines().filter(|line| line.contains("tokamak")).collect();
    assert!(output.status.success() && of_ours.is_empty(), "{said}");
}
