<?php

/*
 * WordPress 6.0 and 6.1 merge theme.json, and what the theme says for each of its templates, anew
 * about twenty times a page: half of the time that a page takes. Later versions keep the result,
 * and so does this class, which replaces theirs and inherits the rest.
 */

require Tokamak\WordPress\Image::original(__FILE__);

class WP_Theme_JSON_Resolver extends WP_Theme_JSON_Resolver_Original
{
    /** All that the results depend on beside files and the database's global styles. */
    private static array $basis = [];
    private static array $merged = [];
    private static ?WP_Theme_JSON $theme_data = null;

    public static function get_merged_data($origin = 'custom')
    {
        if (!is_string($origin)) {
            return parent::get_merged_data($origin);
        }
        self::forget_if_outdated();
        self::$merged[$origin] ??= parent::get_merged_data($origin);
        return clone self::$merged[$origin];
    }

    public static function get_theme_data($deprecated = [], $options = [])
    {
        if ($deprecated !== [] || $options !== []) {
            return parent::get_theme_data($deprecated, $options);
        }
        self::forget_if_outdated();
        self::$theme_data ??= parent::get_theme_data();
        return clone self::$theme_data;
    }

    public static function clean_cached_data()
    {
        self::$basis = [];
        parent::clean_cached_data();
    }

    private static function forget_if_outdated(): void
    {
        $basis = [
            $GLOBALS['_wp_theme_features'] ?? [],
            count(WP_Block_Type_Registry::get_instance()->get_all_registered()),
            get_stylesheet(),
        ];
        if ($basis !== self::$basis) {
            self::$basis = $basis;
            self::$merged = [];
            self::$theme_data = null;
        }
    }
}
