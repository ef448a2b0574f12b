// The same endpoints in Node: its HTTP server and client, and a small client of Redis, with kept
// connections.
import cluster from 'node:cluster';
import http from 'node:http';
import net from 'node:net';

const [port, processes, service, socket] = process.argv.slice(2);
const ANSWER = '{"errno":0,"errmsg":"success","data":"e"}';
const agent = new http.Agent({ keepAlive: true, maxSockets: 256 });

function overHttp(done) {
    http.get(`http://${service}/`, { agent }, (response) => {
        const parts = [];
        response.on('data', (part) => parts.push(part));
        response.on('end', () => done(Buffer.concat(parts)));
    }).on('error', () => done(null));
}

// One connection: who asks first is answered first.
let redis = null;
const waiting = [];

function connect() {
    redis = net.connect(socket);
    let seen = '';
    redis.on('data', (part) => {
        seen += part;
        for (;;) {
            const head = seen.indexOf('\r\n');
            const end = head + 2 + Number(seen.slice(1, head));
            if (head < 0 || seen.length < end + 2) return;
            waiting.shift()(seen.slice(head + 2, end));
            seen = seen.slice(end + 2);
        }
    });
    redis.on('error', () => {
        redis = null;
        for (const done of waiting.splice(0)) done(null);
    });
}

function readRedis(done) {
    if (redis === null) connect();
    waiting.push(done);
    redis.write('*2\r\n$3\r\nget\r\n$6\r\nanswer\r\n');
}

const asks = {
    '/empty': (done) => done(ANSWER),
    '/http': overHttp,
    '/redis': readRedis,
    // The addresses by which everybody's script is asked for.
    '/index.php': (done) => done(ANSWER),
    '/index.php?ask=http': overHttp,
    '/index.php?ask=stream': overHttp,
    '/index.php?ask=redis': readRedis,
};

function serve(request, response) {
    asks[request.url]((body) => {
        const status = body === null ? 502 : 200;
        const text = body ?? 'nobody answers';
        const length = text.length;
        const headers = { 'Content-Type': 'application/json', 'Content-Length': length };
        response.writeHead(status, headers);
        response.end(text);
    });
}

if (cluster.isPrimary && Number(processes) > 1) {
    for (let count = 0; count < Number(processes); count++) cluster.fork();
} else {
    const server = http.createServer(serve);
    server.keepAliveTimeout = 75000;
    server.listen(Number(port), '127.0.0.1', 4096);
}
