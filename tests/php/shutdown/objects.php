<?php
// Subclasses of extensions' classes whose end reaches a file. Nobody closes them.
class Archive extends ZipArchive {}
class Writer extends XMLWriter {}
class Database extends SQLite3 {}
class Connection extends PDO {}
final class Held { public static array $all = []; }

$state = getenv('STATE');
Held::$all[] = $archive = new Archive();
$archive->open("$state/archive.zip", ZipArchive::CREATE);
$archive->addFromString('name.txt', 'content');
Held::$all[] = $writer = new Writer();
$writer->openUri("$state/writer.xml");
$writer->writeElement('element', 'content');
Held::$all[] = $database = new Database("$state/database.sqlite");
$database->exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)');
Held::$all[] = $connection = new Connection("sqlite:$state/connection.sqlite");
$connection->exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1)');
echo 'made';
