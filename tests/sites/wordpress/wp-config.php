<?php

// The blog of the end-to-end tests and the benchmark, which put the address of their database in
// place of @DATABASE@.

define('DB_NAME', 'blog');
define('DB_USER', 'blog');
define('DB_PASSWORD', '@PASSWORD@');
define('DB_HOST', '@DATABASE@');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');

// Secrets of a blog that lives for seconds.
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define("{$name}_KEY", md5("{$name}_KEY"));
    define("{$name}_SALT", md5("{$name}_SALT"));
}

// The port changes from run to run.
define('WP_HOME', "http://{$_SERVER['HTTP_HOST']}");
define('WP_SITEURL', WP_HOME);

// Nothing leaves the machine: no updates, no mail.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
function wp_mail()
{
    return true;
}

$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__.'/');
}
require_once ABSPATH.'wp-settings.php';
