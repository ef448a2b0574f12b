<?php
/*
Plugin Name: Image
Description: Says whether the page was made in an image of WordPress.
*/

add_action('send_headers', function () {
    header('X-Image: ' . (class_exists('Tokamak\WordPress\Image', false) ? 'yes' : 'no'));
});
