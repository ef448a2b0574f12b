<?php

namespace Tokamak\WordPress;

/**
 * What of WordPress is in the image, and whether a request may be served from it.
 *
 * In the depths `plugins` and `loaded` WordPress has asked its database at boot. The image
 * remembers each question with its answer, and each request asks again: only if every answer is
 * still the same is the image what a fresh start would have made.
 */
final class Image
{
    private const SETTINGS = 'wp-settings.php';

    /**
     * Scripts that define for themselves what else wp-load.php brings, and cannot where it is there
     * already.
     */
    private const STAND_ALONE = ['wp-admin/load-scripts.php', 'wp-admin/load-styles.php', 'wp-admin/setup-config.php'];

    /**
     * Files of this directory, each with the file of WordPress and the declaration that it
     * replaces. WordPress's own declaration stays, with `_Original` after its name.
     */
    private const KEPT = [
        'theme-json.php' => [
            'wp-includes/class-wp-theme-json-resolver.php',
            'class WP_Theme_JSON_Resolver',
        ],
        'blocks.php' => ['wp-includes/blocks.php', 'function parse_blocks'],
        'block-templates.php' => [
            'wp-includes/block-template-utils.php',
            'function _inject_theme_attribute_in_block_template_content',
        ],
    ];

    /** Where the depth `plugins` ends. */
    private const USER = "\n\$GLOBALS['wp']->init();\n";

    /** Query variables that change more than the choice of posts. */
    private const NOT_NEUTRAL = ['preview', 'preview_id', 'preview_nonce', 'customize_changeset_uuid', 'wp_scrape_key'];

    /** What campaigns and counters append to links, and scripts of the page read. */
    private const TRACKING = '/^(utm_[a-z]+|gclid|fbclid|msclkid)$/D';

    /** Cookies that only scripts of the page read. */
    private const HARMLESS_COOKIE = '/^(_ga|_gid|_gat|_fbp|_gcl_|_pk_|wordpress_test_cookie$)/';

    /** Options whose value decides nothing in the boot: every request looks at them anew. */
    private const UNWATCHED_OPTIONS = ['cron'];

    private static string $depth;
    private static Source $source;
    private static string $root;
    private static string $host;
    private static bool $secure;
    /** Touched by a request that finds the image outdated; the server watches it. */
    private static string $renewal;
    private static string $variables;
    private static string $rest;
    private static array $originals = [];
    private static int $made;
    private static int $buffers;
    /** Why no request may be served from this image; empty: they may. */
    private static string $unfit = 'its boot did not come to an end';
    private static array $server = [];
    private static array $options = [];
    private static array $answers = [];
    private static array $writes = [];
    private static ?string $question = null;

    /** Loads what the chosen depth has of WordPress's core; answers that depth. */
    public static function begin(): string
    {
        self::$depth = getenv('WORDPRESS_DEPTH') ?: 'core';
        self::$root = rtrim($_SERVER['DOCUMENT_ROOT'], '/');
        try {
            self::$source = new Source(self::$root, Source::privateDirectory());
            foreach (self::STAND_ALONE as $script) {
                self::substitute($script, __DIR__ . '/decline.php');
            }
            switch (self::$depth) {
                case 'core':
                    self::loadCore();
                    break;
                case 'plugins':
                case 'loaded':
                    self::prepare();
                    break;
                default:
                    throw new \RuntimeException("WORDPRESS_DEPTH is core, plugins or loaded, not " . self::$depth);
            }
        } catch (\RuntimeException $problem) {
            self::say($problem->getMessage() . '; nothing of WordPress is in the image');
            return 'none';
        }
        return self::$depth;
    }

    /* ---- depth core ---- */

    private static function loadCore(): void
    {
        $settings = self::$source->movable(self::SETTINGS);
        $sealed = [];
        // Only unconditional statements begin a line.
        $rest = preg_replace_callback(
            "~^require(?:_once)? ABSPATH \. WPINC \. '/([\w./-]+)';$~m",
            function (array $found) use (&$sealed): string {
                $name = "wp-includes/$found[1]";
                if (!self::$source->onlyDeclares($name)) {
                    return $found[0];
                }
                $sealed[] = self::$source->path($name);
                return '';
            },
            $settings,
        );
        if (count($sealed) < 100) {
            throw new \RuntimeException(self::SETTINGS . ' is not as expected: ' . count($sealed) . ' files could be loaded');
        }
        foreach ($sealed as $file) {
            require_once $file;
        }
        self::substitute(self::SETTINGS, self::$source->keep('settings', $rest));
    }

    /* ---- depths plugins and loaded ---- */

    private static function prepare(): void
    {
        $url = parse_url(getenv('WORDPRESS_URL') ?: '');
        if (!isset($url['host'])) {
            throw new \RuntimeException('the depth ' . self::$depth . ' needs WORDPRESS_URL, as in "https://blog.example"');
        }
        self::$host = strtolower($url['host']) . (isset($url['port']) ? ":$url[port]" : '');
        self::$secure = ($url['scheme'] ?? '') === 'https';
        self::config();
        self::$made = time();
        self::$buffers = ob_get_level();
        self::$variables = self::$source->keep('variables', self::$source->statements('wp-includes/vars.php'));
        if (self::$depth === 'plugins') {
            $parts = explode(self::USER, self::$source->movable(self::SETTINGS));
            if (count($parts) !== 2) {
                throw new \RuntimeException(self::SETTINGS . ' is not as expected');
            }
            self::$rest = self::$source->keep('rest', '<?php' . self::USER . $parts[1]);
            self::substitute(self::SETTINGS, self::$source->keep('first', $parts[0]));
        }
        self::substitute('wp-load.php', __DIR__ . '/resume.php');
        self::keepAnswers();
        self::$renewal = dirname(self::$variables) . '/renew-' . md5(__DIR__ . self::$root . self::$host . self::$depth);
        touch(self::$renewal);
        tokamak_watch_file(self::$renewal);
        self::pretend();
        self::listen();
    }

    /**
     * Loads the replacements, which work out once what WordPress works out many times for a page.
     * One whose declaration this version of WordPress does not have is left out.
     */
    private static function keepAnswers(): void
    {
        foreach (self::KEPT as $stand_in => [$name, $declaration]) {
            $movable = self::$source->movable($name);
            $code = preg_replace("/^$declaration\b/m", '${0}_Original', $movable, -1, $count);
            if ($count === 1 && ($stand_in !== 'theme-json.php' || self::mergesAnew($code))) {
                $kept = self::$source->keep(basename($stand_in, '.php'), $code);
                self::$originals[$stand_in] = $kept;
                self::substitute($name, __DIR__ . "/$stand_in");
            }
        }
    }

    /** Whether the class is that of WordPress 6.0 or 6.1. */
    private static function mergesAnew(string $class): bool
    {
        return str_contains($class, 'function get_merged_data( $origin = \'custom\' )')
            && !str_contains(
                self::$source->read('wp-includes/global-styles-and-settings.php'),
                "'theme_json'"
            );
    }

    public static function original(string $stand_in): string
    {
        return self::$originals[basename($stand_in)];
    }

    private static function substitute(string $name, string $by): void
    {
        $file = self::$source->path($name);
        if (!tokamak_substitute_file($file, $by)) {
            throw new \RuntimeException("$file cannot be replaced");
        }
        tokamak_watch_file($file);
    }

    /** A request that every request of a visitor resembles. */
    private static function pretend(): void
    {
        $_SERVER = [
            'HTTP_HOST' => self::$host,
            'SERVER_NAME' => preg_replace('/:\d+$/D', '', self::$host),
            'SERVER_PORT' => self::$secure ? '443' : '80',
            'SERVER_PROTOCOL' => 'HTTP/1.1',
            'REMOTE_ADDR' => '127.0.0.1',
            'REQUEST_METHOD' => 'GET',
            'REQUEST_URI' => '/',
            'QUERY_STRING' => '',
            'DOCUMENT_ROOT' => self::$root,
            'SCRIPT_FILENAME' => self::$root . '/index.php',
            'SCRIPT_NAME' => '/index.php',
            'PHP_SELF' => '/index.php',
        ] + $_SERVER;
        unset($_SERVER['PATH_TRANSLATED'], $_SERVER['FRANKENPHP_WORKER'], $_SERVER['TOKAMAK_WORKER']);
        if (self::$secure) {
            $_SERVER['HTTPS'] = 'on';
            $_SERVER['HTTP_X_FORWARDED_PROTO'] = 'https';
        }
        self::$server = $_SERVER;
        $_GET = $_POST = $_COOKIE = $_REQUEST = $_FILES = [];
        error_reporting(E_ERROR | E_WARNING | E_PARSE | E_CORE_ERROR | E_CORE_WARNING | E_COMPILE_ERROR | E_USER_ERROR
            | E_USER_WARNING | E_RECOVERABLE_ERROR);
        define('ABSPATH', self::$root . '/');
    }

    /** Hooks that are there before WordPress is, in the form that it documents for this. */
    private static function listen(): void
    {
        $hook = fn (callable $function, int $priority) => [$priority => [['function' => $function, 'accepted_args' => 1]]];
        $GLOBALS['wp_filter'] = [
            'query' => $hook([self::class, 'hearQuestion'], PHP_INT_MAX),
            'all' => $hook([self::class, 'hearOption'], 0),
            'plugins_loaded' => $hook([self::class, 'leaveCronAlone'], PHP_INT_MIN),
        ];
    }

    public static function hearQuestion(string $sql): string
    {
        self::noteAnswer();
        if (preg_match('/^\s*(select|show|describe|desc|explain)\b/i', $sql)) {
            self::$question = $sql;
        } else {
            self::$writes[] = $sql;
        }
        return $sql;
    }

    /** The answer to the last question; called before the next one clears it. */
    private static function noteAnswer(): void
    {
        if (self::$question !== null && !preg_match('/^SELECT option_name, option_value FROM \S+ WHERE autoload /', self::$question)) {
            self::$answers[self::$question] = serialize($GLOBALS['wpdb']->last_result);
        }
        self::$question = null;
    }

    public static function hearOption(string $hook): void
    {
        if (str_starts_with($hook, 'pre_option_')) {
            self::$options[substr($hook, strlen('pre_option_'))] = null;
        }
    }

    public static function leaveCronAlone(): void
    {
        if (self::$depth === 'loaded') {
            remove_action('init', 'wp_cron');
        }
    }

    /** The site's wp-config.php, where wp-load.php looks for it. */
    public static function config(): string
    {
        foreach ([self::$root, dirname(self::$root)] as $directory) {
            if (is_file("$directory/wp-config.php")) {
                return "$directory/wp-config.php";
            }
        }
        tokamak_watch_file(self::$root . '/wp-config.php');
        throw new \RuntimeException('there is no wp-config.php yet');
    }

    /** WordPress is loaded as deep as it shall be. */
    public static function finish(): void
    {
        global $wpdb;

        if (self::$depth === 'loaded') {
            self::fillCaches();
        }
        self::noteAnswer();
        remove_filter('query', [self::class, 'hearQuestion'], PHP_INT_MAX);
        remove_filter('all', [self::class, 'hearOption'], 0);
        remove_action('plugins_loaded', [self::class, 'leaveCronAlone'], PHP_INT_MIN);
        self::joinQuestions();
        self::$unfit = match (true) {
            is_multisite() => 'this is a network of sites',
            (bool) wp_using_ext_object_cache() => 'object-cache.php keeps what WordPress read elsewhere',
            defined('WP_CACHE') && WP_CACHE => 'WP_CACHE is set: a page cache wants to see each request first',
            ob_get_level() > self::$buffers => 'a plugin has begun to buffer output',
            self::headers() !== [] => 'a plugin has set the header ' . self::headers()[0],
            self::$writes !== [] => 'WordPress has written to its database: ' . substr(self::$writes[0], 0, 200),
            default => '',
        };
        if (self::$unfit !== '') {
            self::say('requests are declined: ' . self::$unfit);
        }
        $values = wp_load_alloptions();
        self::$options = array_diff_key(self::$options, array_flip(self::UNWATCHED_OPTIONS));
        foreach (self::$options as $name => &$value) {
            $value = $values[$name] ?? null;
        }
        unset($value);
        // What wp-config.php made of the request.
        self::$server = array_diff_assoc(array_filter($_SERVER, 'is_string'), array_filter(self::$server, 'is_string'));
        foreach ([WPMU_PLUGIN_DIR, WP_CONTENT_DIR, WP_PLUGIN_DIR, get_stylesheet_directory(), get_template_directory()] as $directory) {
            tokamak_watch_file($directory);
            foreach (['theme.json', 'style.css', 'templates', 'parts', 'patterns'] as $name) {
                tokamak_watch_file("$directory/$name");
            }
        }
        foreach (glob(WP_LANG_DIR . '{,/plugins,/themes}', GLOB_BRACE) as $directory) {
            tokamak_watch_file($directory);
        }
        // The last thing: whatever asks for an option would bring it back.
        wp_cache_delete('alloptions', 'options');
        $wpdb->flush();
        $wpdb->close();
        tokamak_keep_connections(static function () use ($wpdb): void {
            if (!$wpdb->db_connect(false)) {
                throw new \RuntimeException('the database cannot be reached');
            }
        });
        $_SERVER = $_GET = $_POST = $_COOKIE = $_REQUEST = $_FILES = [];
    }

    /**
     * Has WordPress work out what every page needs; its questions are remembered like all others.
     */
    private static function fillCaches(): void
    {
        if (
            isset(self::$originals['theme-json.php'])
            && \WP_Theme_JSON_Resolver::theme_has_support()
        ) {
            \WP_Theme_JSON_Resolver::get_merged_data();
        }
        if (!function_exists('_get_block_templates_files')) {
            return;
        }
        $texts = [];
        foreach (['wp_template', 'wp_template_part'] as $type) {
            foreach (_get_block_templates_files($type) as $file) {
                $text = (string) file_get_contents($file['path']);
                $texts[] = isset(self::$originals['block-templates.php'])
                    ? _inject_theme_attribute_in_block_template_content($text)
                    : $text;
            }
        }
        $patterns = \WP_Block_Patterns_Registry::get_instance();
        for ($done = []; $texts !== []; $done[$text] = true) {
            $text = array_pop($texts);
            parse_blocks($text);
            preg_match_all('/<!-- wp:pattern {"slug":"([^"]+)"/', $text, $found);
            foreach (array_filter($found[1], $patterns->is_registered(...)) as $slug) {
                $texts[] = $patterns->get_registered($slug)['content'];
            }
            $texts = array_filter($texts, fn (string $text) => !isset($done[$text]));
        }
    }

    /**
     * Replaces the questions for single options by one for all of them, if its answer says the
     * same: each request asks again, and one question costs less than many.
     */
    private static function joinQuestions(): void
    {
        global $wpdb;

        $names = $values = [];
        foreach (self::$answers as $question => $answer) {
            $is_option = "/^SELECT option_value FROM \S+ WHERE option_name = '([\w-]+)' LIMIT 1$/D";
            if (preg_match($is_option, $question, $found)) {
                $names[$question] = $found[1];
                $rows = unserialize($answer);
                $values += isset($rows[0]) ? [$found[1] => $rows[0]->option_value] : [];
            }
        }
        $list = implode("', '", $names);
        $together = "SELECT option_name, option_value FROM $wpdb->options"
            . " WHERE option_name IN ('$list')";
        $rows = count($names) > 1 ? $wpdb->get_results($together) : null;
        if ($rows !== null && array_column($rows, 'option_value', 'option_name') == $values) {
            self::$answers = array_diff_key(self::$answers, $names);
            self::$answers[$together] = serialize($wpdb->last_result);
        }
    }

    private static function headers(): array
    {
        return array_values(array_filter(headers_list(), fn (string $line) => stripos($line, 'X-Powered-By:') !== 0));
    }

    /* ---- requests ---- */

    /**
     * Whether this request may be served from here, as far as it can be seen without the database.
     */
    public static function suits(): bool
    {
        if (self::$unfit !== '') {
            if (self::$writes !== [] || self::$unfit === 'its boot did not come to an end') {
                self::renew();
            }
            return false;
        }
        if (time() - self::$made > (int) (getenv('WORDPRESS_MAX_AGE') ?: 3600)) {
            self::renew();
        }
        $secure = ($_SERVER['HTTPS'] ?? 'off') !== 'off' || ($_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '') === 'https';
        return ($_SERVER['SCRIPT_FILENAME'] ?? '') === self::$root . '/index.php'
            && in_array($_SERVER['REQUEST_METHOD'] ?? '', ['GET', 'HEAD'], true)
            && strtolower($_SERVER['HTTP_HOST'] ?? '') === self::$host
            && $secure === self::$secure
            && !isset($_SERVER['HTTP_AUTHORIZATION']) && !isset($_SERVER['PHP_AUTH_USER'])
            && !file_exists(ABSPATH . '.maintenance')
            && self::hasNeutralCookies()
            && self::hasNeutralQuery();
    }

    private static function hasNeutralCookies(): bool
    {
        foreach ($_COOKIE as $name => $value) {
            if (self::$depth === 'plugins' ? preg_match('/^(wordpress_(?!test_)|wp-)/', $name) : !preg_match(self::HARMLESS_COOKIE, $name)) {
                return false;
            }
        }
        return true;
    }

    private static function hasNeutralQuery(): bool
    {
        foreach ($_GET as $name => $value) {
            if (in_array($name, self::NOT_NEUTRAL, true)) {
                return false;
            }
            if (self::$depth === 'loaded' && !in_array($name, $GLOBALS['wp']->public_query_vars, true) && !preg_match(self::TRACKING, $name)) {
                return false;
            }
        }
        return true;
    }

    /**
     * Does for this request what wp-settings.php does for each, and asks the database what the boot
     * has asked.
     */
    public static function resume(): bool
    {
        global $wpdb;

        $_SERVER = self::$server + $_SERVER;
        wp_fix_server_vars();
        wp_register_fatal_error_handler();
        timer_start();
        wp_debug_mode();
        register_shutdown_function('shutdown_action_hook');
        if (!($wpdb->ready || $wpdb->db_connect(false)) || !self::isUpToDate()) {
            self::renew();
            return false;
        }
        require self::$variables;
        wp_magic_quotes();
        unset($GLOBALS['current_user']);
        if (self::$depth === 'loaded') {
            $GLOBALS['wp']->init();
            return get_current_user_id() === 0;
        }
        return true;
    }

    private static function isUpToDate(): bool
    {
        global $wpdb;

        $values = wp_load_alloptions();
        foreach (self::$options as $name => $value) {
            if (($values[$name] ?? null) !== $value) {
                return false;
            }
        }
        foreach (self::$answers as $question => $answer) {
            $wpdb->query($question);
            if (serialize($wpdb->last_result) !== $answer) {
                return false;
            }
        }
        $wpdb->flush();
        $wpdb->num_queries = 0;
        return true;
    }

    /**
     * The rest of wp-settings.php, if the image ends before it; it runs in the scope of whoever
     * includes it.
     */
    public static function rest(): ?string
    {
        return self::$rest ?? null;
    }

    /** The server makes a new image when this file has changed. */
    private static function renew(): void
    {
        touch(self::$renewal);
    }

    private static function say(string $message): void
    {
        tokamak_log("WordPress: $message", FRANKENPHP_LOG_LEVEL_WARN);
    }
}
