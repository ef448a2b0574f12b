<?php

declare(strict_types=1);

// What the database is asked: MariaDB, PostgreSQL and SQLite understand all of it.

namespace Cms;

use PDO;

/** Makes the tables where there are none. */
function install(PDO $database): void
{
    $key = match ($database->getAttribute(PDO::ATTR_DRIVER_NAME)) {
        'mysql' => 'INTEGER AUTO_INCREMENT PRIMARY KEY',
        'pgsql' => 'SERIAL PRIMARY KEY',
        'sqlite' => 'INTEGER PRIMARY KEY',
    };
    $database->exec("CREATE TABLE IF NOT EXISTS articles (
        id $key, slug VARCHAR(60) UNIQUE NOT NULL, title VARCHAR(200) NOT NULL,
        body TEXT NOT NULL, author VARCHAR(60) NOT NULL)");
    $database->exec("CREATE TABLE IF NOT EXISTS comments (
        id $key, article INTEGER NOT NULL, author VARCHAR(60) NOT NULL, body TEXT NOT NULL)");
}

/** The newest ten whose title contains a text. */
function latest(PDO $database, string $about): array
{
    $asked = $database->prepare(
        'SELECT slug, title, author,
             (SELECT COUNT(*) FROM comments WHERE article = articles.id) AS comments
         FROM articles WHERE title LIKE ? ORDER BY id DESC LIMIT 10'
    );
    $asked->execute(['%'.addcslashes($about, '%_').'%']);

    return $asked->fetchAll();
}

/** An article with its comments. */
function find(PDO $database, string $slug): ?array
{
    $asked = $database->prepare(
        'SELECT id, slug, title, body, author FROM articles WHERE slug = ?'
    );
    $asked->execute([$slug]);
    if (!$article = $asked->fetch()) {
        return null;
    }
    $asked = $database->prepare('SELECT author, body FROM comments WHERE article = ? ORDER BY id');
    $asked->execute([$article['id']]);

    return $article + ['comments' => $asked->fetchAll()];
}

function add_comment(PDO $database, int $article, string $author, string $text): void
{
    $added = $database->prepare('INSERT INTO comments (article, author, body) VALUES (?, ?, ?)');
    $added->execute([$article, $author, $text]);
}

/** Writes an article, in place of the one of this name if there is one. */
function save(PDO $database, string $slug, string $title, string $text, string $author): void
{
    $database->beginTransaction();
    $asked = $database->prepare('SELECT id FROM articles WHERE slug = ?');
    $asked->execute([$slug]);
    if ($id = $asked->fetchColumn()) {
        $changed = $database->prepare('UPDATE articles SET title = ?, body = ? WHERE id = ?');
        $changed->execute([$title, $text, $id]);
    } else {
        $added = $database->prepare(
            'INSERT INTO articles (slug, title, body, author) VALUES (?, ?, ?, ?)'
        );
        $added->execute([$slug, $title, $text, $author]);
    }
    $database->commit();
}
