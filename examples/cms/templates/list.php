<h1>Articles</h1>
<form><input name="about" value="<?= $html($page['about']) ?>"> <button>Search</button></form>
<ul>
<?php foreach ($page['articles'] as $article) { ?>
    <li>
        <a href="/article/<?= $html($article['slug']) ?>"><?= $html($article['title']) ?></a>
        by <?= $html($article['author']) ?>, <?= $article['comments'] ?> comments
    </li>
<?php } ?>
</ul>
