use std::sync::mpsc::channel;

use bytes::Bytes;
use http::{HeaderMap, Response};

use super::backend::{Application, Call, PATIENCE, put, raw, status};
use super::in_front_of;
use crate::harness::{Request, get, numbered, post};
use crate::http2::client::{Target, exchange, field, frame, request, runtime};

/// An application that says what it is asked, and sends the body back behind that.
fn mirror() -> Application {
    Application::start(
        |_| {},
        |mut call: Call| async move {
            let (method, uri) = (call.request.method().clone(), call.request.uri().clone());
            let mut said = format!("{method} {uri}\n");
            let mut names: Vec<_> = call.request.headers().iter().collect();
            names.sort_by_key(|(name, _)| name.as_str().to_owned());
            for (name, value) in names {
                said += &format!("{name}: {}\n", value.to_str().unwrap());
            }
            let (body, trailers) = call.body().await?;
            for (name, value) in &trailers {
                said += &format!("behind it {name}: {}\n", value.to_str().unwrap());
            }
            let head = Response::builder().header("x-one", "1").body(()).unwrap();
            if method == "HEAD" {
                return call.answer(head, "").await;
            }
            call.answer(head, [said.as_bytes(), &body].concat()).await
        },
    )
}

#[test]
fn an_application_is_asked_as_over_http_1() {
    let application = mirror();
    let server = in_front_of(&application.url(), "headers = { X-Own = \"own\" }").start();
    let asked = get("/app/a%20b?c=d")
        .header("Cookie", "a=b")
        .header("Connection", "X-Hop")
        .header("X-Hop", "1")
        .header("TE", "trailers, gzip")
        .header("X-Forwarded-For", "1.2.3.4");
    let answer = server.send(&asked).expect(200);
    assert_eq!(answer.header("x-one"), Some("1"));
    let said = answer.text();
    assert!(said.starts_with("GET http://localhost/app/a%20b?c=d\n"), "{said}");
    for line in ["cookie: a=b", "te: trailers", "x-own: own", "x-forwarded-for: 127.0.0.1"] {
        assert!(said.contains(&format!("{line}\n")), "{line}: {said}");
    }
    for name in ["x-hop", "connection", "1.2.3.4", "content-length", "transfer-encoding"] {
        assert!(!said.contains(name), "{name}: {said}");
    }
    let said = server.send(&post("/app", "text/x", "hello")).expect(200).text();
    assert!(said.contains("content-length: 5\n") && said.ends_with("\nhello"), "{said}");
    let head = server.send(&Request::new("HEAD", "/app")).expect(200);
    assert_eq!(head.text(), "");
}

/// Everybody's windows and buffers are smaller than the bodies, whole or as they come.
#[test]
fn bodies_of_any_length_pass_both_ways() {
    let application = mirror();
    for lines in ["", "request_buffering = false"] {
        let server = in_front_of(&application.url(), lines).line("loops = 1").start();
        let body = numbered(5_000_000);
        let answer = server.send(&post("/app", "text/x", body.clone())).expect(200);
        assert!(answer.body.ends_with(&body));
        let asked = post("/app", "text/x", body.clone()).chunked(70_000);
        assert!(server.send(&asked).expect(200).body.ends_with(&body));
        let asked = (0..4).map(|_| (request("POST", "/app"), body.clone())).collect();
        for answer in exchange(&server, asked) {
            assert!(answer.body().ends_with(&body), "{lines}");
        }
    }
}

/// The application answers each piece before the next one is sent.
#[test]
fn both_talk_at_the_same_time() {
    let application = Application::start(
        |_| {},
        |mut call: Call| async move {
            let mut stream = call.respond.send_response(Response::new(()), false).ok()?;
            let body = call.request.body_mut();
            while let Some(Ok(piece)) = body.data().await {
                body.flow_control().release_capacity(piece.len()).ok()?;
                // Before trailers there may be an empty one.
                if piece.is_empty() {
                    continue;
                }
                put(&mut stream, [b"you said ", &piece[..]].concat().into(), false).await?;
            }
            let mut trailers = body.trailers().await.ok()?.unwrap_or_default();
            trailers.insert("x-sum", "7".parse().unwrap());
            trailers.insert("set-cookie", "a=b".parse().unwrap());
            stream.send_trailers(trailers).ok()
        },
    );
    let server = in_front_of(&application.url(), "request_buffering = false").start();
    let talk = async {
        let client = Target::plain(server.address).connect().await.expect("a connection");
        let mut client = client.ready().await.unwrap();
        let asked = request("POST", "/app").body(()).unwrap();
        let (response, mut stream) = client.send_request(asked, false).unwrap();
        let mut body = None;
        let mut response = Some(response);
        for number in 0..20 {
            let word = format!("word {number}");
            stream.send_data(Bytes::from(word.clone()), false).unwrap();
            if let Some(response) = response.take() {
                body = Some(response.await.unwrap().into_body());
            }
            let heard = body.as_mut().unwrap().data().await.unwrap().unwrap();
            assert_eq!(heard, format!("you said {word}"));
        }
        let mut fields = HeaderMap::new();
        fields.insert("x-checked", "yes".parse().unwrap());
        fields.insert("x-forwarded-for", "1.2.3.4".parse().unwrap());
        stream.send_trailers(fields).unwrap();
        let mut body = body.unwrap();
        while let Some(piece) = body.data().await {
            assert!(piece.unwrap().is_empty());
        }
        let trailers = body.trailers().await.unwrap().expect("they follow");
        assert_eq!(trailers["x-sum"], "7");
        assert_eq!(trailers["x-checked"], "yes");
        assert_eq!(trailers.len(), 2, "{trailers:?}");
    };
    runtime().block_on(async { tokio::time::timeout(PATIENCE, talk).await.expect("in time") });
}

/// Over HTTP/1.1, too, the client is answered while it sends.
#[test]
fn a_client_of_http_1_talks_as_well() {
    let application = Application::start(
        |_| {},
        |mut call: Call| async move {
            let mut stream = call.respond.send_response(Response::new(()), false).ok()?;
            let body = call.request.body_mut();
            while let Some(Ok(piece)) = body.data().await {
                body.flow_control().release_capacity(piece.len()).ok()?;
                put(&mut stream, piece, false).await?;
            }
            stream.send_data(Bytes::from_static(b"end"), true).ok()
        },
    );
    let server = in_front_of(&application.url(), "request_buffering = false").start();
    let mut connection = server.connect();
    connection.send("POST /app HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
    connection.send("3\r\nabc\r\n");
    let head = connection.head().unwrap();
    assert_eq!(head.status, 200);
    let mut said = Vec::new();
    let mut take = |connection: &mut crate::harness::Connection, wanted: &str| {
        while !String::from_utf8_lossy(&said).contains(wanted) {
            said.extend(connection.take(1).unwrap());
        }
    };
    take(&mut connection, "abc");
    connection.send("3\r\ndef\r\n");
    take(&mut connection, "def");
    connection.send("0\r\n\r\n");
    take(&mut connection, "end\r\n0\r\n\r\n");
    connection.send(get("/app").bytes());
    assert_eq!(connection.response().expect(200).text(), "end", "the connection goes on");
}

#[test]
fn trailers_reach_clients_that_take_them() {
    let application = Application::start(
        |_| {},
        |mut call: Call| async move {
            let head = Response::builder().header("trailer", "x-sum").body(()).unwrap();
            let mut stream = call.respond.send_response(head, false).ok()?;
            put(&mut stream, Bytes::from_static(b"body"), false).await?;
            let mut fields = HeaderMap::new();
            fields.insert("x-sum", "7".parse().unwrap());
            stream.send_trailers(fields).ok()
        },
    );
    let server = in_front_of(&application.url(), "").start();
    let answer = server.send(&get("/app").header("TE", "trailers")).expect(200);
    assert_eq!((answer.text(), answer.trailers), ("body".into(), vec!["x-sum: 7".to_owned()]));
    let answer = server.send(&get("/app")).expect(200);
    assert_eq!((answer.text(), answer.trailers.len()), ("body".into(), 0));
}

#[test]
fn interim_responses_reach_the_client() {
    let backend = raw(|wire| {
        while let Some(stream) = wire.request() {
            let hints = [status("103"), field("link", "</a.css>; rel=preload")].concat();
            wire.send(&frame(1, 4, stream, &hints));
            wire.answer(stream, "final");
        }
    });
    let server = in_front_of(&backend.url, "").line("early_hints = \"all\"").start();
    let answer = server.get("/app").expect(200);
    assert_eq!((answer.text().as_str(), answer.interim.len()), ("final", 1));
    let hints = &answer.interim[0];
    assert_eq!(hints.status, 103);
    assert_eq!(hints.header("link"), Some("</a.css>; rel=preload"));
}

/// A client that leaves: the application is told, and the others of the connection go on.
#[test]
fn a_client_that_leaves_cancels_its_request_alone() {
    let (tell, told) = channel();
    let backend = raw(move |wire| {
        let Some(first) = wire.request() else { return };
        let _ = tell.send("first");
        let Some(second) = wire.request() else { return };
        let _ = tell.send("second");
        while let Some((kind, _, stream, payload)) = wire.next() {
            if kind == 3 && stream == first {
                assert_eq!(payload, 8_u32.to_be_bytes());
                let _ = tell.send("cancelled");
                wire.answer(second, "still there");
            }
        }
    });
    let server = in_front_of(&backend.url, "").line("loops = 1").start();
    let mut leaving = server.connect();
    leaving.send(get("/app/first").bytes());
    let mut staying = server.connect();
    assert_eq!(told.recv_timeout(PATIENCE), Ok("first"));
    staying.send(get("/app/second").bytes());
    assert_eq!(told.recv_timeout(PATIENCE), Ok("second"));
    drop(leaving);
    assert_eq!(told.recv_timeout(PATIENCE), Ok("cancelled"));
    assert_eq!(staying.response().expect(200).text(), "still there");
}

#[test]
fn the_times_of_an_upstream_hold() {
    let backend = raw(|wire| while wire.request().is_some() {});
    let lines = "first_byte_timeout = \"1s\"\nfailures = 0";
    let server = in_front_of(&backend.url, lines).line("loops = 1").start();
    for connection in 1..3 {
        server.get("/app/silent").expect(504);
        // Nothing was heard on it while it was waited for, so the next request gets another one.
        assert_eq!(backend.connections(), connection);
    }
    server.log_line(&["status=504", "did not begin to answer in time"]);

    let backend = raw(|wire| {
        while let Some(stream) = wire.request() {
            wire.send(&frame(1, 4, stream, &status("200")));
            wire.send(&frame(0, 0, stream, b"begun"));
        }
    });
    let server = in_front_of(&backend.url, "read_timeout = \"1s\"").start();
    let mut connection = server.connect();
    connection.send(get("/app/stalled").bytes());
    assert!(connection.try_response("GET").is_err(), "it breaks off");
    server.log_line(&["/app/stalled", "stopped in the middle of its response"]);
}
