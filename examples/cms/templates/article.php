<h1><?= $html($page['title']) ?></h1>
<p>by <?= $html($page['author']) ?></p>
<p><?= nl2br($html($page['body'])) ?></p>
<?php foreach ($page['comments'] as $comment) { ?>
<blockquote>
    <?= $html($comment['body']) ?> <cite><?= $html($comment['author']) ?></cite>
</blockquote>
<?php } ?>
<form method="post"><textarea name="text"></textarea> <button>Comment</button></form>
