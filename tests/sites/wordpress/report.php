<?php
/*
Plugin Name: Report
Description: Lets the document say which of its images the browser could show.
*/

// Avatars come from another host, and there is none.
add_filter('pre_option_show_avatars', '__return_zero');

add_action('wp_footer', function () {
    ?>
    <script>
        addEventListener('load', () => {
            const seen = Array.from(document.images, (image) => `${new URL(image.src).pathname}:${image.naturalWidth}`);
            document.body.dataset.images = seen.join(' ');
        });
    </script>
    <?php
});
