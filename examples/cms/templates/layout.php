<!doctype html>
<html lang="en">
<head>
    <meta charset="utf-8">
    <title><?= $html($page['title'] ?? 'Articles') ?></title>
</head>
<body>
    <nav><a href="/">Articles</a> <a href="/write">Write one</a></nav>
    <?= $content ?>
</body>
</html>
