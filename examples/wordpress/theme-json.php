<?php

/*
 * WordPress 6.0 and 6.1 merge theme.json anew about twenty times a page, a third of the time that a page takes. Later versions
 * keep the result, and so does this class, which stands in the place of theirs; the rest is inherited.
 */

require Tokamak\WordPress\Image::originalResolver();

class WP_Theme_JSON_Resolver extends WP_Theme_JSON_Resolver_Original
{
    private static array $merged = [];

    public static function get_merged_data($origin = 'custom')
    {
        if (!is_string($origin)) {
            return parent::get_merged_data($origin);
        }
        // All that the result depends on beside files and the database's global styles.
        $key = $origin . ' ' . count(WP_Block_Type_Registry::get_instance()->get_all_registered())
            . ' ' . get_stylesheet() . ' ' . md5(serialize($GLOBALS['_wp_theme_features'] ?? []));
        self::$merged[$key] ??= parent::get_merged_data($origin);
        return clone self::$merged[$key];
    }

    public static function clean_cached_data()
    {
        self::$merged = [];
        parent::clean_cached_data();
    }
}
