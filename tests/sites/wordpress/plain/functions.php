<?php
define('PLAIN_HEADING', 'Plain');
add_action('widgets_init', function () {
    register_sidebar(['id' => 'side', 'name' => 'Side']);
});
