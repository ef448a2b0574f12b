<?php
/*
Plugin Name: Motto
Description: Reads an option while it is loaded, and shows it at the end of each page.
*/

add_option('motto', 'boot once');
$motto = get_option('motto');
add_action('wp_footer', function () use ($motto) {
    echo '<p>Motto: ', esc_html($motto), '</p>';
});
