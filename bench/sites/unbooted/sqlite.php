<?php

$database = new PDO('sqlite::memory:');
$database->exec('CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT)');
$put = $database->prepare('INSERT INTO things (name) VALUES (?)');
for ($number = 0; $number < 200; $number++) {
    $put->execute(["thing $number"]);
}
echo count($database->query('SELECT * FROM things')->fetchAll()), ' things';
