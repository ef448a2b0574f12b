<?php

// The blog that is measured; the driver puts the database's socket in place of @SOCKET@.

define('DB_NAME', 'blog');
define('DB_USER', 'blog');
define('DB_PASSWORD', '@PASSWORD@');
define('DB_HOST', 'localhost:@SOCKET@');
define('DB_CHARSET', 'utf8mb4');
define('DB_COLLATE', '');

// Secrets of a blog that nobody logs in to.
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) {
    define("{$name}_KEY", md5("{$name}_KEY"));
    define("{$name}_SALT", md5("{$name}_SALT"));
}

// The same blog at the address of each server.
define('WP_HOME', "http://{$_SERVER['HTTP_HOST']}");
define('WP_SITEURL', WP_HOME);

// Nothing but the page is to be measured: no updates, no mail, no chores after a page.
define('WP_HTTP_BLOCK_EXTERNAL', true);
define('AUTOMATIC_UPDATER_DISABLED', true);
define('DISABLE_WP_CRON', true);
function wp_mail()
{
    return true;
}

$table_prefix = 'wp_';
if (!defined('ABSPATH')) {
    define('ABSPATH', __DIR__ . '/');
}
require_once ABSPATH . 'wp-settings.php';
