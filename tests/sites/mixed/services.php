<?php

/** Lists of lasting connections to the services. */
function connections(): array
{
    $password = getenv('PASSWORD');
    $pdo = static fn (string $kind, string $port): Lasting => new Lasting(
        static fn () => new PDO(
            "$kind:host=127.0.0.1;port=".getenv($port).';dbname=reactor',
            'reactor',
            $password,
            [PDO::ATTR_TIMEOUT => 2]
        )
    );
    $redis = static function () use ($password): Redis {
        $client = new Redis();
        if (!@$client->connect('127.0.0.1', (int) getenv('REDIS'), 2, null, 0, 2)) {
            throw new RuntimeException('no Redis');
        }
        $client->auth($password);

        return $client;
    };
    $mysqli = static fn () => @new mysqli(
        '127.0.0.1', 'reactor', $password, 'reactor', (int) getenv('MARIADB')
    );

    return [
        'mariadb' => $pdo('mysql', 'MARIADB'),
        'postgresql' => $pdo('pgsql', 'POSTGRESQL'),
        'mysqli' => new Lasting($mysqli),
        'redis' => new Lasting($redis),
    ];
}

/** A query that takes up to eight milliseconds and says the token. */
function slept(PDO $database, string $sql, string $token): mixed
{
    $asked = $database->prepare($sql);
    $asked->execute([$token, 0.001 * (crc32($token) % 8)]);

    return $asked->fetchColumn();
}

/** Writes the token and reads it back, in a transaction that leaves nothing. */
function written(PDO $database, string $token): mixed
{
    $database->beginTransaction();
    $database->prepare('INSERT INTO rods (name) VALUES (?)')->execute([$token]);
    $asked = $database->prepare('SELECT name FROM rods WHERE id = LAST_INSERT_ID()');
    $asked->execute();
    $name = $asked->fetchColumn();
    $database->rollBack();

    return $name;
}

/** Databases and the like that repeat a token. */
function services(): array
{
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    $lasting = connections();
    $mariadb = 'SELECT ? FROM (SELECT SLEEP(?)) AS slept';
    $postgresql = 'SELECT CAST(? AS text) FROM pg_sleep(?)';

    return [
        'mariadb' => static fn (string $token) => $lasting['mariadb']->with(
            static fn (PDO $database) => slept($database, $mariadb, $token)
        ),
        'rows' => static fn (string $token) => $lasting['mariadb']->with(
            static fn (PDO $database) => written($database, $token)
        ),
        'mysqli' => static fn (string $token) => $lasting['mysqli']->with(
            static fn (mysqli $database) => $database->query("SELECT '$token'")->fetch_row()[0]
        ),
        'postgresql' => static fn (string $token) => $lasting['postgresql']->with(
            static fn (PDO $database) => slept($database, $postgresql, $token)
        ),
        'redis' => static fn (string $token) => $lasting['redis']->with(
            static function (Redis $client) use ($token): string {
                $client->setex("key-$token", 30, $token);
                usleep(500);

                return (string) $client->get("key-$token");
            }
        ),
        'sleep' => static function (string $token): string {
            usleep(crc32($token) % 5000);

            return $token;
        },
        'buffer' => static function (string $token): string {
            ob_start();
            for ($i = 0; $i < 50; $i++) {
                echo str_repeat($token, 100);
                usleep(10);
            }
            $all = ob_get_clean();

            return str_replace($token, '', $all) === '' ? $token : "buffer: $all";
        },
        'program' => static fn (string $token)
            => trim((string) shell_exec('sleep 0.01; echo '.escapeshellarg($token))),
    ];
}
