<?php
// What asks a database that is there. The user and the database are called reactor.
return (require __DIR__ . '/../connections.php')([
    'redis' => [
        'with' => ['igbinary'],
        'service' => 'redis',
        'connect' => static function () {
            $redis = new Redis();
            $redis->connect('127.0.0.1', (int) getenv('PORT'));
            $redis->auth(getenv('PASSWORD'));
            return $redis;
        },
        'persist' => static function () {
            $redis = new Redis();
            $redis->pconnect('127.0.0.1', (int) getenv('PORT'));
            $redis->auth(getenv('PASSWORD'));
            return $redis;
        },
        'ask' => static fn (Redis $redis) => [$redis->set('works', '1'), $redis->get('works')],
        'is' => [true, '1'],
    ],
    'mysqli' => [
        'with' => ['mysqlnd'],
        'service' => 'mariadb',
        'connect' => static fn () => new mysqli('127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('PORT')),
        'persist' => static fn () => new mysqli('p:127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', (int) getenv('PORT')),
        'ask' => static fn (mysqli $database) => $database->execute_query('SELECT concat(?, ?)', ['a', 'b'])->fetch_row(),
        'is' => ['ab'],
    ],
    'pdo_mysql' => [
        'with' => ['mysqlnd', 'pdo'],
        'service' => 'mariadb',
        'connect' => static fn () => new PDO('mysql:host=127.0.0.1;dbname=reactor;port=' . getenv('PORT'), 'reactor', getenv('PASSWORD')),
        'persist' => static fn () => new PDO('mysql:host=127.0.0.1;dbname=reactor;port=' . getenv('PORT'), 'reactor', getenv('PASSWORD'), [PDO::ATTR_PERSISTENT => true]),
        'ask' => static fn (PDO $database) => $database->query('SELECT 7')->fetchColumn(),
        'is' => 7,
    ],
    'pgsql' => [
        'service' => 'postgresql',
        'connect' => static fn () => pg_connect('host=127.0.0.1 dbname=reactor user=reactor port=' . getenv('PORT') . " password='" . getenv('PASSWORD') . "'"),
        'persist' => static fn () => pg_pconnect('host=127.0.0.1 dbname=reactor user=reactor port=' . getenv('PORT') . " password='" . getenv('PASSWORD') . "'"),
        'ask' => static fn ($database) => pg_fetch_result(pg_query_params($database, 'SELECT $1::int + 1', [6]), 0, 0),
        'is' => '7',
    ],
    'pdo_pgsql' => [
        'with' => ['pdo'],
        'service' => 'postgresql',
        'connect' => static fn () => new PDO('pgsql:host=127.0.0.1;dbname=reactor;port=' . getenv('PORT'), 'reactor', getenv('PASSWORD')),
        'persist' => static fn () => new PDO('pgsql:host=127.0.0.1;dbname=reactor;port=' . getenv('PORT'), 'reactor', getenv('PASSWORD'), [PDO::ATTR_PERSISTENT => true]),
        'ask' => static fn (PDO $database) => $database->query('SELECT 7')->fetchColumn(),
        'is' => 7,
    ],
    'pq' => [
        'only' => '8.4',
        'with' => ['raphf'],
        'service' => 'postgresql',
        'connect' => static fn () => new pq\Connection('host=127.0.0.1 dbname=reactor user=reactor port=' . getenv('PORT') . " password='" . getenv('PASSWORD') . "'"),
        'persist' => static fn () => new pq\Connection('host=127.0.0.1 dbname=reactor user=reactor port=' . getenv('PORT') . " password='" . getenv('PASSWORD') . "'", pq\Connection::PERSISTENT),
        'ask' => static fn (pq\Connection $database) => $database->execParams('SELECT $1::int + 1', [6])->fetchRow(pq\Result::FETCH_ARRAY),
        'is' => [7],
    ],
    'memcached' => [
        'with' => ['igbinary', 'msgpack'],
        'service' => 'memcached',
        'connect' => static function () {
            $memcached = new Memcached();
            $memcached->addServer('127.0.0.1', (int) getenv('PORT'));
            return $memcached;
        },
        'persist' => static function () {
            $memcached = new Memcached('works');
            $memcached->getServerList() || $memcached->addServer('127.0.0.1', (int) getenv('PORT'));
            $memcached->set('boot', '1');
            return $memcached;
        },
        'ask' => static fn (Memcached $memcached) => [$memcached->set('works', '1'), $memcached->get('works')],
        'is' => [true, '1'],
    ],
    'memcache' => [
        'service' => 'memcached',
        'connect' => static function () {
            $memcache = new Memcache();
            $memcache->connect('127.0.0.1', (int) getenv('PORT'));
            return $memcache;
        },
        'persist' => static function () {
            $memcache = new Memcache();
            $memcache->pconnect('127.0.0.1', (int) getenv('PORT'));
            return $memcache;
        },
        'ask' => static fn (Memcache $memcache) => [$memcache->set('works', '1'), $memcache->get('works')],
        'is' => [true, '1'],
    ],
    'gearman' => [
        'service' => 'gearman',
        'connect' => static function () {
            $client = new GearmanClient();
            $client->addServer('127.0.0.1', (int) getenv('PORT'));
            return $client;
        },
        'ask' => static fn (GearmanClient $client) => [$client->ping('works'), strlen($client->doBackground('work', '1')) > 0],
        'is' => [true, true],
    ],
]);
