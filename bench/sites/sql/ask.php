<?php

// Two reads of one row each, from the database that the request names. Where it is and how to get
// in stands in places.php, which the driver writes.

require __DIR__.'/places.php';

function connection(string $on, bool $persistent): PDO
{
    return new PDO(PLACES[$on], 'bench', PASSWORD, [PDO::ATTR_PERSISTENT => $persistent]);
}

function thing(PDO $database): string
{
    return $database->query('SELECT name FROM things WHERE id = 42')->fetchColumn();
}

function answer(PDO $database): void
{
    header('Content-Type: text/plain');
    echo thing($database), ', ', thing($database);
}
