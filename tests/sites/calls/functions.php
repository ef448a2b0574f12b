<?php
// Pages with known numbers of SQL and HTTP calls; the test has the numbers.

function nothing(): void
{
    file_get_contents(__FILE__);
    count(file(__FILE__));
}

function mysql(): PDO
{
    return new PDO(getenv('MYSQL'), 'reactor', getenv('PASSWORD'));
}

function by_mysqli(): mysqli
{
    return new mysqli('127.0.0.1', 'reactor', getenv('PASSWORD'), 'reactor', getenv('MYSQL_PORT'));
}

function url(string $path): string
{
    return 'http://127.0.0.1:' . getenv('HTTP') . $path;
}

function curl(string $path): CurlHandle
{
    $handle = curl_init(url($path));
    curl_setopt($handle, CURLOPT_RETURNTRANSFER, true);
    return $handle;
}

function pdo_mysql(): void
{
    $pdo = mysql();
    $pdo->query('SELECT 1')->fetchAll();
    $pdo->exec('DO 1');
    $pdo->beginTransaction();
    $statement = $pdo->prepare('SELECT ?');
    foreach ([1, 2, 3] as $n) {
        $statement->execute([$n]);
        $statement->fetchAll();
    }
    $pdo->commit();
}

function mysqli_both(): void
{
    $mysqli = by_mysqli();
    $mysqli->query('SELECT 1')->fetch_all();
    mysqli_query($mysqli, 'SELECT 2')->fetch_all();
    $mysqli->execute_query('SELECT ?', [3])->fetch_all();
    $statement = $mysqli->prepare('SELECT ?');
    foreach ([4, 5] as $n) {
        $statement->execute([$n]);
        $statement->get_result()->fetch_all();
    }
}

function pgsql(): void
{
    $pgsql = pg_connect(getenv('PGSQL'));
    pg_query($pgsql, 'SELECT 1');
    pg_query_params($pgsql, 'SELECT $1::int', [2]);
    pg_prepare($pgsql, 'third', 'SELECT $1::int');
    pg_execute($pgsql, 'third', [3]);
    pg_execute($pgsql, 'third', [4]);
    (new PDO('pgsql:' . getenv('PGSQL')))->query('SELECT 5')->fetchAll();
}

function sqlite(): void
{
    $sqlite = new SQLite3(':memory:');
    $sqlite->exec('CREATE TABLE t (n)');
    $sqlite->query('SELECT * FROM t')->fetchArray();
    $sqlite->querySingle('SELECT 1');
    $statement = $sqlite->prepare('INSERT INTO t VALUES (:n)');
    foreach ([1, 2] as $n) {
        $statement->bindValue(':n', $n);
        $statement->execute();
    }
    (new PDO('sqlite::memory:'))->query('SELECT 1')->fetchAll();
}

function http(): void
{
    curl_exec(curl('/echo/a'));
    file_get_contents(url('/echo/b'));
    file(url('/echo/c'));
    $stream = fopen(url('/echo/d'), 'r');
    stream_get_contents($stream);
    @simplexml_load_file(url('/echo/e'));
    $multi = curl_multi_init();
    foreach (['/echo/f', '/echo/g', '/echo/h'] as $path) {
        curl_multi_add_handle($multi, curl($path));
    }
    do {
        curl_multi_exec($multi, $running);
        curl_multi_select($multi);
    } while ($running > 0);
    $client = new SoapClient(null, ['location' => url('/echo/i'), 'uri' => 'urn:i']);
    try {
        $client->something();
    } catch (SoapFault) {
    }
}

class ReactorPdo extends PDO
{
    public function query(string $sql, ?int $mode = null, mixed ...$more): PDOStatement|false
    {
        return parent::query($sql);
    }
}

class QuietPdo extends PDO
{
}

function indirectly(): void
{
    $pdo = new ReactorPdo('sqlite::memory:');
    $quiet = new QuietPdo('sqlite::memory:');
    call_user_func([$pdo, 'query'], 'SELECT 1');
    array_map([$quiet, 'query'], ['SELECT 2', 'SELECT 3']);
    ($quiet->query(...))('SELECT 4');
    (new ReflectionMethod(PDO::class, 'exec'))->invoke($quiet, 'SELECT 5');
    call_user_func('file_get_contents', url('/echo/a'));
}

function throwing(): void
{
    foreach ([1, 2] as $n) {
        try {
            mysql()->query('This is no SQL');
        } catch (PDOException) {
        }
    }
    @file_get_contents(url('/hangup/a'));
}

function nested(): void
{
    $outer = new SQLite3(':memory:');
    $inner = new SQLite3(':memory:');
    $outer->createFunction('inside', static function () use ($inner): int {
        usleep(100_000);
        return $inner->querySingle('SELECT 7');
    });
    $outer->querySingle('SELECT inside()');
}

// The fatal error jumps out of the call.
function fatal(): void
{
    $handle = curl('/echo/a');
    curl_setopt($handle, CURLOPT_WRITEFUNCTION, static function (): never {
        usleep(100_000);
        trigger_error('on purpose', E_USER_ERROR);
    });
    curl_exec($handle);
}

function sleeps(): void
{
    mysql()->query('SELECT SLEEP(' . (float) $_GET['seconds'] . ')')->fetchAll();
}

// Is in its second call until the test lets it go.
function waits_for_a_lock(): void
{
    $pdo = mysql();
    $pdo->query('SELECT 1')->fetchAll();
    $pdo->query("SELECT GET_LOCK('test', 60)")->fetchAll();
}

function calls_late(): void
{
    echo 'answered ';
    tokamak_finish_request();
    mysql()->query('SELECT SLEEP(0.1)')->fetchAll();
}

function in_coroutines(): void
{
    $late = static fn () => curl_exec(curl('/late/a'));
    Tokamak\all([$late, $late, $late]);
}
