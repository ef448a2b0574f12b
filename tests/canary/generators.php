<?php
/**
 * One value of each generator, so long that only a generator that repeats itself gives it twice. "seeded" are those that PHP
 * seeds with so little that two seeds may be equal.
 */
function random_values(): array
{
    static $sqlite;
    $sqlite ??= new PDO('sqlite::memory:');
    $hundred = range(1, 100);
    $shuffled = $hundred;
    shuffle($shuffled);
    $randomizer = new Random\Randomizer();
    return [
        'values' => [
            'random_bytes' => bin2hex(random_bytes(16)),
            'random_int' => random_int(PHP_INT_MIN, PHP_INT_MAX) . ' ' . random_int(PHP_INT_MIN, PHP_INT_MAX),
            'openssl_random_pseudo_bytes' => bin2hex(openssl_random_pseudo_bytes(16)),
            'session_create_id' => session_create_id(),
            'uniqid' => uniqid('', true),
            'Randomizer::getBytes' => bin2hex($randomizer->getBytes(16)),
            'Randomizer::shuffleArray' => implode(' ', $randomizer->shuffleArray($hundred)),
            'Xoshiro256StarStar' => bin2hex((new Random\Engine\Xoshiro256StarStar())->generate()),
            'PcgOneseq128XslRr64' => bin2hex((new Random\Engine\PcgOneseq128XslRr64())->generate()),
            'randomblob of SQLite' => $sqlite->query('SELECT hex(randomblob(16))')->fetchColumn(),
        ],
        'seeded' => [
            'lcg_value' => @lcg_value() . ' ' . @lcg_value(),
            'mt_rand' => mt_rand() . ' ' . mt_rand() . ' ' . mt_rand(),
            'rand' => rand() . ' ' . rand() . ' ' . rand(),
            'shuffle' => implode(' ', $shuffled),
            'array_rand' => implode(' ', array_rand($hundred, 30)),
            'str_shuffle' => str_shuffle(str_repeat('0123456789abcdefghijklmnopqrstuvwxyz', 2)),
            'Mt19937' => bin2hex((new Random\Randomizer(new Random\Engine\Mt19937()))->getBytes(16)),
        ],
    ];
}
