//! The application with pages of one's own (`examples/personalised`): FastCGI processes that keep
//! users in their memory, each user in one, and the same application in the server's own PHP.

use std::collections::BTreeSet;
use std::sync::OnceLock;
use std::time::Duration;

use crate::harness::{Kind, Request, Server, Setup, eventually, get, in_parallel, tests};
use crate::operate::{kill, status, status_when};
use crate::services::mariadb::PASSWORD;
use crate::services::postgresql::PostgreSql;

const USERS: usize = 200;
const PATIENCE: Duration = Duration::from_secs(20);

/// A server of the example and its database. The server ends first.
struct Plant {
    server: Server,
    database: PostgreSql,
}

fn example(name: &str) -> &'static str {
    static TEXTS: OnceLock<[String; 2]> = OnceLock::new();
    let read = |name: &str| {
        let path = tests().join("../examples/personalised").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let texts = TEXTS.get_or_init(|| ["users.sql", "tokamak.toml"].map(read));
    &texts[usize::from(name == "tokamak.toml")]
}

impl Plant {
    fn start(kind: Kind, seconds: u32, keep: &str) -> Plant {
        let database = PostgreSql::start();
        database.query(&example("users.sql").replace(":users", &USERS.to_string()));
        let dsn = format!(
            "pgsql:host=127.0.0.1;port={};dbname=reactor;user=reactor;password='{PASSWORD}'",
            database.port()
        );
        let setup = Setup::new(kind).site("../examples/personalised").public("public");
        let setup = match kind {
            Kind::Fastcgi => {
                // As the example says, but for the database.
                let upstream = example("tokamak.toml").split("\n\n").next().unwrap();
                let lines = upstream
                    .lines()
                    .filter(|line| !line.starts_with(['#', '[', 'n']) && !line.starts_with("env"));
                let env = format!(
                    "env = {{ USERS_DSN = \"{dsn}\", USERS_KEPT_SECONDS = \"{seconds}\" }}"
                );
                let lines: Vec<&str> = lines.chain(["directory = \"site\"", &env]).collect();
                setup
                    .upstream(&lines.join("\n"))
                    .site_line("[[site.route]]\npath = \"/\"\nupstream = \"app\"")
            }
            _ => setup
                .worker("../worker.php")
                .front_controller("index.php")
                .env("USERS_DSN", &dsn)
                .env("USERS_KEPT_SECONDS", &seconds.to_string())
                .env("USERS_KEEP_CONNECTION", keep),
        };
        Plant { server: setup.start(), database }
    }

    /// The page of a user, who must be let in.
    #[track_caller]
    fn page(&self, user: usize, name: &str) -> String {
        self.server.send(&ask(user, name)).expect(200).text()
    }

    fn move_to(&self, user: usize, town: &str) {
        self.database
            .query(&format!("UPDATE attributes SET town = '{town}' WHERE name = 'user{user}'"));
    }
}

fn ask(user: usize, name: &str) -> Request {
    get(&format!("/{name}")).basic_auth(&format!("user{user}:secret{user}"))
}

fn everybody_gets_their_own_pages(plant: &Plant) {
    in_parallel(400, |number| {
        let user = 1 + number % USERS;
        let page = plant.page(user, ["welcome", "account", "news"][number % 3]);
        for value in [
            format!("user{user}"),
            format!("{user} High Street"),
            format!("Town {user}"),
            format!("Team {}", user % 30),
        ] {
            assert!(page.contains(&value), "{value} in {page}");
        }
        assert!(!page.contains(['{', '}']), "{page}");
        assert!(page.len() > 2900, "{page}");
    });
    for wrong in ["user7:secret8", "user7", "nobody:secret7", ":", "user7:secret7' OR '1'='1"] {
        let refused = plant.server.send(&get("/welcome").basic_auth(wrong)).expect(401);
        assert_eq!(refused.text(), "Who are you?\n");
    }
    plant.server.get("/welcome").expect(401);
    plant.server.send(&ask(7, "users.sql")).expect(404);
    plant.server.send(&ask(7, "nothing")).expect(404);
}

#[test]
fn in_fastcgi_processes() {
    let plant = Plant::start(Kind::Fastcgi, 60, "yes");
    everybody_gets_their_own_pages(&plant);
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    // One for each of the four processes, and the one that asks.
    assert_eq!(plant.database.query(connections), "5");
}

#[test]
fn in_worker_mode() {
    for keep in ["yes", "no"] {
        everybody_gets_their_own_pages(&Plant::start(Kind::Worker, 0, keep));
    }
}

#[test]
fn in_classic_mode() {
    everybody_gets_their_own_pages(&Plant::start(Kind::Classic, 0, "yes"));
}

/// Whatever process had not seen the user before would know of the move.
#[test]
fn a_user_meets_the_same_process_each_time() {
    let plant = Plant::start(Kind::Fastcgi, 600, "yes");
    for user in 1..=20 {
        plant.page(user, "welcome");
        plant.move_to(user, "Elsewhere");
    }
    in_parallel(400, |number| {
        let page = plant.page(1 + number % 20, "welcome");
        assert!(!page.contains("Elsewhere"), "{page}");
    });

    // And a process that takes another's place begins anew, with the same users.
    let processes = status(&plant.server)["applications"][0]["processes"].clone();
    // one that dies in its first second is started more slowly
    std::thread::sleep(Duration::from_millis(1200));
    let victim = processes[0]["pid"].as_u64().unwrap();
    kill("KILL", victim);
    status_when(&plant.server, "another process", |status| {
        status["applications"][0]["restarts"] == 1
    });
    let moved = |user: &usize| plant.page(*user, "welcome").contains("Elsewhere");
    let theirs: BTreeSet<usize> = (1..=20).filter(moved).collect();
    assert!((1..20).contains(&theirs.len()), "{theirs:?}");
    for _ in 0..3 {
        assert_eq!((1..=20).filter(moved).collect::<BTreeSet<_>>(), theirs);
    }
}

#[test]
fn a_kept_user_is_asked_for_again_after_a_time() {
    let plant = Plant::start(Kind::Fastcgi, 1, "yes");
    plant.page(3, "news");
    plant.move_to(3, "Elsewhere");
    let moved = || plant.page(3, "news").contains("Elsewhere").then_some(());
    assert!(eventually(PATIENCE, moved).is_some());
}

#[test]
fn without_a_database_requests_are_refused_and_no_process_ends() {
    let Plant { server, database } = Plant::start(Kind::Fastcgi, 0, "yes");
    drop(database);
    for number in 0..8 {
        assert_eq!(
            server.send(&ask(1 + number, "news")).expect(500).text(),
            "That did not work.\n"
        );
    }
    server.log_line(&["WARN [localhost]", "connection", "url=/news"]);
    assert_eq!(status(&server)["applications"][0]["restarts"], 0);
}

#[test]
fn a_connection_that_the_database_closes_costs_no_request() {
    let plant = Plant::start(Kind::Fastcgi, 0, "yes");
    for _ in 0..3 {
        in_parallel(16, |number| drop(plant.page(1 + number, "account")));
        let others = "backend_type = 'client backend' AND pid <> pg_backend_pid()";
        plant.database.query(&format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"
        ));
    }
    assert!(!plant.server.log().contains("ERROR"), "{}", plant.server.log());
}
