<?php

/*
 * WordPress before 6.4 writes the theme's name into all templates of the theme each time it looks
 * for one.
 */

require Tokamak\WordPress\Image::original(__FILE__);

function _inject_theme_attribute_in_block_template_content($template_content)
{
    static $known = [];

    return $known[get_stylesheet()][$template_content]
        ??= _inject_theme_attribute_in_block_template_content_Original($template_content);
}
