<?php

/** @var array{path: string} $with */

use function Demo\e;

?>
<h1>Not here</h1>
<p class="lead">There is no page <code><?= e($with['path']) ?></code>. The server found no such file either, so it asked
<code>index.php</code>, and this is its answer: status 404. <a href="/">Back to the start</a></p>
