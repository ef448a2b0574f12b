// Debian: nodejs
import fs from 'node:fs';
import http2 from 'node:http2';
import { once } from 'node:events';

const [use, url, other] = process.argv.slice(2);
const session = http2.connect(url, { ca: fs.readFileSync(process.env.AUTHORITY) });

async function ask(url, fields = {}, body) {
    const { pathname, search } = new URL(url);
    const stream = session.request({ ':path': pathname + search, ...fields }, { endStream: !body });
    stream.end(body);
    for await (const chunk of stream) process.stdout.write(chunk);
}

switch (use) {
    case 'page':
        await ask(url);
        break;
    case 'kept':
    case 'later':
        await ask(url);
        if (use === 'later') await once(process.stdin, 'data');
        await ask(other);
        process.stdin.destroy();
        break;
    case 'range': {
        const part = fs.readFileSync(other);
        process.stdout.write(part);
        await ask(url, { range: `bytes=${part.length}-` });
        break;
    }
    case 'upload':
        await ask(url, { ':method': 'POST' }, fs.readFileSync(other));
        break;
    default:
        process.exitCode = 64;
}
session.close();
