<!doctype html>
<html>
<head><title><?php bloginfo('name'); ?></title><?php wp_head(); ?></head>
<body>
<h1><?php echo PLAIN_HEADING; ?></h1>
<?php
while (have_posts()) {
    the_post();
    the_title('<h2>', '</h2>');
    echo '<p>', get_the_author(), '</p>';
    the_content();
}
dynamic_sidebar('side');
wp_footer();
?>
</body>
</html>
