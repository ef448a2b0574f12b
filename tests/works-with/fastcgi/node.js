// Debian's node-fastcgi: Node's http.createServer() over FastCGI.
const fastcgi = require('node-fastcgi');

process.umask(0);
fastcgi.createServer((request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' });
    if (request.cgiParams.PATH_INFO === '/echo') {
        const pieces = [];
        request.on('data', (piece) => pieces.push(piece));
        request.on('end', () => response.end(Buffer.concat(pieces)));
    } else {
        const params = request.cgiParams;
        response.end(Object.keys(params).sort().map((name) => `${name}=${params[name]}\n`).join(''));
    }
}).listen(process.argv[2]);
