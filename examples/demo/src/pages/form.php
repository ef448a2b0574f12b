<?php

use function Demo\e;
use function Demo\size;

$posted = ($_SERVER['REQUEST_METHOD'] ?? 'GET') === 'POST';
$file = $_FILES['file'] ?? null;
$given = is_array($file) && is_string($file['name'] ?? null) && $file['error'] !== UPLOAD_ERR_NO_FILE;

$problems = [
    UPLOAD_ERR_INI_SIZE => 'larger than upload_max_filesize (' . ini_get('upload_max_filesize') . ')',
    UPLOAD_ERR_FORM_SIZE => 'larger than the form allows',
    UPLOAD_ERR_PARTIAL => 'only a part arrived',
    UPLOAD_ERR_NO_TMP_DIR => 'there is no folder for temporary files',
    UPLOAD_ERR_CANT_WRITE => 'it could not be written',
    UPLOAD_ERR_EXTENSION => 'an extension refused it',
];

?>
<h1>Form and upload</h1>
<p class="lead">Nothing is kept: the file is gone when the answer is sent.</p>

<?php if ($posted): ?>
<section class="card">
    <h2>What arrived</h2>
    <table>
<?php foreach ($_POST as $name => $value): ?>
        <tr><th><?= e($name) ?></th><td><?= nl2br(e(is_string($value) ? $value : (string) json_encode($value))) ?></td></tr>
<?php endforeach ?>
<?php if ($given && $file['error'] === UPLOAD_ERR_OK && is_uploaded_file($file['tmp_name'])): ?>
        <tr><th>file name</th><td><?= e($file['name']) ?></td></tr>
        <tr><th>size</th><td class="n"><?= e(number_format($file['size'])) ?> bytes (<?= e(size($file['size'])) ?>)</td></tr>
        <tr><th>type, as the browser says</th><td><?= e($file['type']) ?></td></tr>
        <tr><th>SHA-256</th><td class="c"><?= e((string) hash_file('sha256', $file['tmp_name'])) ?></td></tr>
<?php elseif ($given): ?>
        <tr><th>file</th><td>not accepted: <?= e($problems[$file['error']] ?? "error {$file['error']}") ?></td></tr>
<?php endif ?>
<?php if ($_POST === [] && !$given): ?>
        <tr><td>Nothing: no fields and no file. Was it larger than post_max_size (<?= e((string) ini_get('post_max_size')) ?>)?</td></tr>
<?php endif ?>
    </table>
</section>
<?php endif ?>

<section class="card">
    <form method="post" action="/form" enctype="multipart/form-data">
        <label>Name <input type="text" name="name" value="<?= e(is_string($_POST['name'] ?? null) ? $_POST['name'] : '') ?>" autocomplete="off"></label>
        <label>Message <textarea name="message" rows="3"><?= e(is_string($_POST['message'] ?? null) ? $_POST['message'] : '') ?></textarea></label>
        <label>File <input type="file" name="file"></label>
        <button>Send</button>
    </form>
</section>
