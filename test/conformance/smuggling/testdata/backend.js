// A backend that reports each request it has received whole: one line of JSON
// on its output, and the same as its answer.
'use strict';
const http = require('node:http');
const crypto = require('node:crypto');

const server = http.createServer((request, response) => {
  const sum = crypto.createHash('sha256');
  let length = 0;
  request.on('data', (piece) => { length += piece.length; sum.update(piece); });
  request.on('end', () => {
    const record = JSON.stringify({
      nonce: request.headers['x-nonce'] || '',
      method: request.method,
      target: request.url,
      host: request.headers.host || '',
      length: length,
      sum: sum.digest('hex'),
    });
    process.stdout.write(record + '\n');
    response.setHeader('Content-Type', 'application/json');
    response.end(record);
  });
});
// The edge may keep a connection unused for as long as it likes.
server.keepAliveTimeout = 120000;
server.listen(process.argv[2], () => process.stdout.write('listening\n'));
process.on('SIGTERM', () => server.close(() => process.exit(0)));
