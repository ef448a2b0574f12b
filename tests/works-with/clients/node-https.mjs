// Debian: nodejs
import fs from 'node:fs';
import https from 'node:https';
import { once } from 'node:events';

const [use, url, other] = process.argv.slice(2);
const agent = new https.Agent({ keepAlive: true, ca: fs.readFileSync(process.env.AUTHORITY) });

async function ask(url, options = {}, body) {
    const request = https.request(url, { agent, ...options });
    if (options.headers?.Expect) {
        request.flushHeaders();
        await once(request, 'continue');
    }
    request.end(body);
    const [answer] = await once(request, 'response');
    for await (const chunk of answer) process.stdout.write(chunk);
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
        await ask(url, { headers: { Range: `bytes=${part.length}-` } });
        break;
    }
    case 'upload': {
        const body = fs.readFileSync(other);
        const headers = { 'Content-Length': body.length, Expect: '100-continue' };
        await ask(url, { method: 'POST', headers }, body);
        break;
    }
    default:
        process.exitCode = 64;
}
agent.destroy();
