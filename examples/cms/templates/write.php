<?php if ($page['name'] === null) { ?>
<h1>Who are you?</h1>
<form method="post" action="/login"><input name="name"> <button>Log in</button></form>
<?php } else { ?>
<h1>Write, <?= $html($page['name']) ?></h1>
<form method="post">
    <input name="slug" placeholder="short-name"> <input name="title" placeholder="Title">
    <textarea name="text"></textarea> <button>Publish</button>
</form>
<?php } ?>
